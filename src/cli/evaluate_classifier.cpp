#include <ATen/ATen.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "evaluate.h"
#include "fovea/core/error.h"
#include "fovea/core/table.h"
#include "fovea/tasks/classification/images/image_assets.h"
#include "fovea/data/loader.h"
#include "fovea/metrics/confusion.h"

namespace fovea::cli {
namespace {

constexpr int64_t kWidestMatrix = 20;  // classes; a wider one no terminal shows

struct Result {
  metrics::ConfusionMatrix confusion;
  double loss = 0;
};

Result measure(classification::Classifier& model, const data::DataModule& data, data::Part part, int64_t num_classes, at::Device device) {
  const at::NoGradGuard no_grad;
  Result result{metrics::ConfusionMatrix(num_classes)};
  data::Loader loader(data, part, 0);
  while (auto batch = loader.next()) {
    const data::Batch on_device = batch->to(device);
    const classification::ImageBatch images(on_device);
    const at::Tensor logits = model.logits(images.image);  // (batch, num_classes)
    result.loss += at::cross_entropy_loss(logits, images.label, {}, at::Reduction::Sum).item<double>();
    result.confusion.add(images.label, logits.argmax(1));
  }
  result.loss /= static_cast<double>(result.confusion.total());
  return result;
}

nlohmann::ordered_json to_json(const metrics::ConfusionMatrix& confusion, const std::vector<std::string>& names) {
  nlohmann::ordered_json classes = nlohmann::json::array(), matrix = nlohmann::json::array();
  for (int64_t c = 0; c < confusion.num_classes(); ++c) {
    const auto s = confusion.score(c);
    classes.push_back({{"name", names[static_cast<size_t>(c)]},
                       {"precision", s.precision},
                       {"recall", s.recall},
                       {"f1", s.f1},
                       {"images", s.support}});
    std::vector<int64_t> row;
    for (int64_t p = 0; p < confusion.num_classes(); ++p) row.push_back(confusion.count(c, p));
    matrix.push_back(row);
  }
  return {{"classes", classes}, {"confusion", matrix}};
}

std::string score_table(const metrics::ConfusionMatrix& confusion, const std::vector<std::string>& names) {
  using enum Table::Align;
  Table table(
      {.header = {"class", "precision", "recall", "F1", "images"}, .align = {kLeft, kRight, kRight, kRight, kRight}});
  const auto add = [&](const std::string& name, const metrics::ConfusionMatrix::Score& s) {
    table.add_row({name, fmt::format("{:.4f}", s.precision), fmt::format("{:.4f}", s.recall),
                   fmt::format("{:.4f}", s.f1), std::to_string(s.support)});
  };
  for (int64_t c = 0; c < confusion.num_classes(); ++c) add(names[static_cast<size_t>(c)], confusion.score(c));
  add("mean", confusion.mean_score());
  return table.str();
}

std::string confusion_table(const metrics::ConfusionMatrix& confusion, const std::vector<std::string>& names) {
  std::vector<std::string> header = {"actual \\ predicted"};
  header.insert(header.end(), names.begin(), names.end());
  std::vector<Table::Align> align(header.size(), Table::Align::kRight);
  align[0] = Table::Align::kLeft;
  Table table({.header = header, .align = align});
  for (int64_t c = 0; c < confusion.num_classes(); ++c) {
    std::vector<std::string> row = {names[static_cast<size_t>(c)]};
    for (int64_t p = 0; p < confusion.num_classes(); ++p) row.push_back(std::to_string(confusion.count(c, p)));
    table.add_row(row);
  }
  return table.str();
}

}  // namespace

int evaluate_classifier(const train::LoadedRun& run, classification::Classifier& model, const EvaluateOptions& options) {
  const auto* assets = dynamic_cast<const classification::ImageAssets*>(run.assets.get());
  if (assets == nullptr) fail_usage("{}: its data is not of labelled images", options.run);
  const data::Part part = options.part();
  const auto data = run.config.make_data(run.assets);
  if (data->size(part) == 0) {
    fail_usage("{}: there are no {} images, the run's configuration has none; choose another --split", options.run,
               data::part_name(part));
  }
  const auto [confusion, loss] = measure(model, *data, part, assets->num_classes(), run.device);

  if (options.json) {
    nlohmann::ordered_json line = {{"run", options.run},
                                   {"checkpoint", run.checkpoint.filename().string()},
                                   {"data", data::part_name(part)},
                                   {"images", confusion.total()},
                                   {"loss", loss},
                                   {"accuracy", confusion.accuracy()}};
    line.update(to_json(confusion, assets->class_names()));
    std::cout << line.dump() << "\n";
    return 0;
  }
  Table table;
  table.add_row({"checkpoint", run.checkpoint.filename().string()});
  table.add_row({"data", fmt::format("{}, {} images", data::part_name(part), confusion.total())});
  table.add_row({"loss", fmt::format("{:.4f}", loss)});
  table.add_row({"accuracy",
                 fmt::format("{:.4f} ({} of {} right)", confusion.accuracy(), confusion.correct(), confusion.total())});
  std::cout << table.str() << "\n" << score_table(confusion, assets->class_names());
  if (confusion.num_classes() <= kWidestMatrix) {
    std::cout << "\n" << confusion_table(confusion, assets->class_names());
  } else {
    std::cout << "\n(what was taken for what, of " << confusion.num_classes() << " classes: --json)\n";
  }
  return 0;
}

}  // namespace fovea::cli
