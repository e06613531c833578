#include "fovea/tasks/classification/task.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "fovea/metrics/confusion.h"
#include "fovea/tasks/classification/assets.h"
#include "fovea/tasks/classification/attend.h"
#include "fovea/tasks/classification/images/cifar.h"
#include "fovea/tasks/classification/images/file_images.h"
#include "fovea/tasks/classification/images/image_datasets.h"
#include "fovea/tasks/classification/images/inspect.h"
#include "fovea/tasks/classification/images/propose.h"
#include "fovea/tasks/classification/validation.h"
#include "fovea/train/train_state.h"

namespace fovea::classification {
namespace {

constexpr const char* kName = "classification";
constexpr int64_t kExamplesAtOnce = 64;
constexpr int64_t kTop = 5;
constexpr const char* kByClass = "class";

struct EvaluateOptions : config::Section {
  std::optional<std::string> by;
  void fields(config::Fields& f) override {
    f("by", by, "accuracy and loss of each class, and what it is mostly taken for", config::choice({kByClass}));
  }
};

struct PredictOptions : config::Section {
  int64_t top = 1;
  void fields(config::Fields& f) override {
    f("top", top, "classes to name for each input, the likeliest first, one line each", config::at_least(1));
  }
};

const ClassificationAssets& assets_of(const data::DataAssets& assets) {
  return dynamic_cast<const ClassificationAssets&>(assets);
}

// What one pass over a part of the data gives.
struct Counted {
  metrics::ConfusionMatrix confusion;
  double loss = 0;
  int64_t in_top = 0;       // examples whose class is among the kTop likeliest
  at::Tensor class_losses;  // double (num_classes): the sum over the examples of each class
};

Counted count(const Classifier& model, const data::DataModule& data, data::Part part, int64_t num_classes,
              at::Device device, Progress* progress) {
  const at::NoGradGuard no_grad;
  Counted counted{.confusion = metrics::ConfusionMatrix(num_classes),
                  .class_losses = at::zeros({num_classes}, at::kDouble)};
  train::TermSums sums;
  data::Loader loader(data, part, 0);
  ProgressState shown{.name = std::string("evaluating ") + data::part_name(part), .total = loader.batches()};
  while (auto batch = loader.next()) {
    const data::Batch on_device = batch->to(device);
    const at::Tensor logits = model.logits(on_device), label = on_device.tensor("label");
    counted.confusion.add(label, logits.argmax(1));
    if (num_classes > kTop) {
      const at::Tensor likeliest = std::get<1>(logits.topk(kTop, 1));  // (batch, kTop)
      counted.in_top += likeliest.eq(label.unsqueeze(1)).sum().item<int64_t>();
    }
    const at::Tensor losses = at::cross_entropy_loss(logits, label, {}, at::Reduction::None);
    counted.class_losses.index_add_(0, label.to(at::kCPU), losses.to(at::kCPU, at::kDouble));
    for (const auto& term : validation_terms(logits, label)) sums.add(term.name, term.sum.item<double>(), term.count);
    ++shown.done;
    if (progress != nullptr) progress->update(shown);
  }
  if (progress != nullptr) progress->finish();
  counted.loss = sums.mean("loss");
  return counted;
}

void add_scores(tasks::Report& report, const metrics::ConfusionMatrix& confusion, const std::vector<std::string>& names,
                const std::string& unit) {
  tasks::Report::Grid classes{
      .key = "classes",
      .columns = {{"name", "class"}, {"precision", "precision"}, {"recall", "recall"}, {"f1", "F1"}, {unit, unit}},
      .rows = {}};
  const auto add = [&](const std::string& name, const metrics::ConfusionMatrix::Score& s) {
    classes.rows.push_back({name, s.precision, s.recall, s.f1, s.support});
  };
  tasks::Report::Matrix matrix{.key = "confusion", .label = "actual \\ predicted", .names = names, .counts = {}};
  for (int64_t c = 0; c < confusion.num_classes(); ++c) {
    add(names[static_cast<size_t>(c)], confusion.score(c));
    auto& row = matrix.counts.emplace_back();
    for (int64_t p = 0; p < confusion.num_classes(); ++p) row.push_back(confusion.count(c, p));
  }
  classes.json_rows = classes.rows.size();
  add("mean", confusion.mean_score());
  report.grids.push_back(std::move(classes));
  report.matrices.push_back(std::move(matrix));
}

tasks::Report::Grid bands_by_class(const Counted& counted, const std::vector<std::string>& names,
                                   const std::string& unit) {
  tasks::Report::Grid grid{.key = "by_class",
                           .columns = {{"class", "class"},
                                       {unit, unit},
                                       {"accuracy", "accuracy"},
                                       {"loss", "loss"},
                                       {"taken_for", "mostly taken for"}},
                           .rows = {},
                           .bands = tasks::Report::Bands::kNamed};
  const metrics::ConfusionMatrix& confusion = counted.confusion;
  for (int64_t c = 0; c < confusion.num_classes(); ++c) {
    const auto score = confusion.score(c);
    int64_t other = -1;  // what it is taken for most often
    for (int64_t p = 0; p < confusion.num_classes(); ++p) {
      if (p != c && confusion.count(c, p) > (other < 0 ? 0 : confusion.count(c, other))) other = p;
    }
    tasks::Value taken_for;
    if (other >= 0) taken_for = fmt::format("{} ({})", names[static_cast<size_t>(other)], confusion.count(c, other));
    grid.rows.push_back({names[static_cast<size_t>(c)], score.support, score.recall,
                         counted.class_losses[c].item<double>() / static_cast<double>(score.support), taken_for});
  }
  return grid;
}

tasks::Report evaluate(const train::LoadedRun& run, const tasks::EvaluateRequest& request) {
  if (!request.files.empty()) fail_usage("--input: classifiers are evaluated on a part of their data (--split)");
  const auto& model = tasks::contract_of<Classifier>(*run.module, kName);
  const ClassificationAssets& assets = assets_of(*run.assets);
  const auto evaluated = tasks::load_part(run, request);
  const Counted counted =
      count(model, *evaluated.data, evaluated.part, assets.spec().num_classes, run.device, request.progress);
  const metrics::ConfusionMatrix& confusion = counted.confusion;
  const std::string unit = evaluated.data->unit();
  tasks::Report report;
  report.facts = evaluated.facts(confusion.total(), unit);
  report.facts.push_back({.key = "loss", .value = counted.loss});
  report.facts.push_back(
      {.key = "accuracy",
       .value = confusion.accuracy(),
       .text = fmt::format("{:.4f} ({} of {} right)", confusion.accuracy(), confusion.correct(), confusion.total())});
  if (assets.spec().num_classes > kTop) {
    const double share = static_cast<double>(counted.in_top) / static_cast<double>(confusion.total());
    report.facts.push_back(
        {.key = "top5_accuracy",
         .value = share,
         .label = "top-5 accuracy",
         .text = fmt::format("{:.4f} ({} of {} among the 5 likeliest)", share, counted.in_top, confusion.total())});
  }
  if (dynamic_cast<const EvaluateOptions&>(*request.options).by) {
    report.grids.push_back(bands_by_class(counted, assets.class_names(), unit));
  }
  add_scores(report, confusion, assets.class_names(), unit);
  return report;
}

// A folder stands for the images in it.
std::vector<std::string> images_of(const std::string& argument) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(argument, ignored)) return {argument};
  std::vector<std::string> images;
  for (const auto& path : images_below(argument)) images.push_back(path.string());
  if (images.empty()) fail_usage("{}: holds no PNG or JPEG images", argument);
  return images;
}

class ClassPredictor : public tasks::Predictor {
 public:
  ClassPredictor(const train::LoadedRun& run, const PredictOptions& options)
      : model_(tasks::contract_of<Classifier>(*run.module, kName)),
        assets_(assets_of(*run.assets)),
        device_(run.device),
        top_(options.top) {
    if (top_ > assets_.spec().num_classes) {
      fail_usage("--top: expected 1 to {}, the number of classes, got {}", assets_.spec().num_classes, top_);
    }
  }

  std::vector<tasks::Prediction> predict(const std::vector<std::string>& inputs) const override {
    const at::NoGradGuard no_grad;
    std::vector<tasks::Prediction> predictions(inputs.size());
    const auto [examples, places] = tasks::read_each(
        inputs, "image", predictions, [this](const std::string& input) { return assets_.read_example(input); });
    if (examples.empty()) return predictions;
    const at::Tensor probabilities =
        model_.logits(assets_.make_batch(examples).to(device_)).softmax(1).to(at::kCPU);  // (examples, num_classes)
    for (size_t row = 0; row < places.size(); ++row) {
      describe_one(predictions[places[row]], inputs[places[row]], probabilities[static_cast<int64_t>(row)]);
    }
    return predictions;
  }
  size_t batch_size() const override { return kExamplesAtOnce; }
  std::string csv_header() const override {
    std::string header = "image,class";
    for (const auto& name : assets_.class_names()) header += "," + tasks::csv_field(name);
    return header;
  }

 private:
  // The likeliest classes, best first.
  void describe_one(tasks::Prediction& prediction, const std::string& input, const at::Tensor& probabilities) const {
    const auto [values, indices] = probabilities.topk(top_);
    nlohmann::ordered_json line = {{"image", input}, {"classes", nlohmann::json::array()}};
    for (int64_t i = 0; i < top_; ++i) {
      const std::string& name = assets_.class_names()[static_cast<size_t>(indices[i].item<int64_t>())];
      const double probability = values[i].item<double>();
      line["classes"].push_back({{"class", name}, {"probability", probability}});
      prediction.text +=
          fmt::format("{}{}\t{}\t{:.4f}", i > 0 ? "\n" : "", one_line(input), one_line(name), probability);
    }
    prediction.csv = tasks::csv_field(input) + "," +
                     tasks::csv_field(assets_.class_names()[static_cast<size_t>(indices[0].item<int64_t>())]);
    for (int64_t c = 0; c < probabilities.numel(); ++c) {
      prediction.csv += fmt::format(",{:.6f}", probabilities[c].item<double>());
    }
    prediction.json = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  const Classifier& model_;
  const ClassificationAssets& assets_;
  at::Device device_;
  int64_t top_;
};

}  // namespace

const tasks::Task& task() {
  static const tasks::Task task{.name = kName,
                                .summary = "examples into classes",
                                .verb = "classify",
                                .input = "image",
                                .reads_lines = false,
                                .example = "fovea classify runs/vit_fashion_mnist shoe.png",
                                .inputs_of = images_of,
                                .writes_csv = true,
                                .datasets = {data::data_entry<FashionMnist, FashionMnistConfig, ImageAssets>(
                                                 "fashion_mnist", "small pictures of clothes in ten classes (d2l 4.2)"),
                                             data::data_entry<IdxImages, IdxImagesConfig, ImageAssets>(
                                                 "idx_images", "labelled images in IDX files"),
                                             data::data_entry<ImageFolder, ImageFolderConfig, ImageAssets>(
                                                 "image_folder", "PNG and JPEG images in a folder for each class"),
                                             data::data_entry<ImageTable, ImageTableConfig, ImageAssets>(
                                                 "image_table", "PNG and JPEG images that a CSV or TSV names"),
                                             data::data_entry<Cifar10, Cifar10Config, ImageAssets>(
                                                 "cifar10", "small colour photos in ten classes"),
                                             data::data_entry<Cifar100, Cifar100Config, ImageAssets>(
                                                 "cifar100", "small colour photos in a hundred classes")},
                                .evaluate_options = [] { return std::make_shared<EvaluateOptions>(); },
                                .predict_options = [] { return std::make_shared<PredictOptions>(); },
                                .judge = {},
                                .evaluate = evaluate,
                                .predictor =
                                    [](const train::LoadedRun& run, const config::Section& options) {
                                      return std::make_unique<ClassPredictor>(
                                          run, dynamic_cast<const PredictOptions&>(options));
                                    },
                                .examples = examples,
                                .attend = attend,
                                .attend_options = attend_options,
                                .script =
                                    [](const train::Module& module, const data::DataAssets& assets) {
                                      return assets_of(assets).script(tasks::contract_of<Classifier>(module, kName));
                                    },
                                .propose = propose_images,
                                .inspect = inspect_images};
  return task;
}

}  // namespace fovea::classification
