#include "fovea/tasks/regression/task.h"

#include <ATen/ATen.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "fovea/tasks/regression/attend.h"
#include "fovea/tasks/regression/dataset.h"
#include "fovea/tasks/regression/function.h"
#include "fovea/tasks/regression/inspect.h"
#include "fovea/tasks/regression/propose.h"
#include "fovea/tasks/regression/script.h"

namespace fovea::regression {
namespace {

constexpr const char* kName = "regression";
constexpr size_t kRowsAtOnce = 1024;

const TableAssets& assets_of(const data::DataAssets& assets) {
  return dynamic_cast<const TableAssets&>(assets);
}

// Targets and what was predicted for them, float64 (rows, num_targets), in the data's own units.
struct Predicted {
  at::Tensor x, y, prediction;  // x is standardised

  /// The share of the targets' variance that is explained; NaN where they do not vary.
  static double r2(const at::Tensor& y, const at::Tensor& prediction) {
    const double total = (y - y.mean(0, true)).square().sum().item<double>();
    if (total == 0) return std::numeric_limits<double>::quiet_NaN();
    return 1 - (y - prediction).square().sum().item<double>() / total;
  }
  double r2() const { return r2(y, prediction); }
  double mean_absolute_error() const { return (y - prediction).abs().mean().item<double>(); }
};

Predicted predict_part(const Regressor& model, const data::DataModule& data, data::Part part, at::Device device) {
  const at::NoGradGuard no_grad;
  const TableAssets& assets = assets_of(*data.assets());
  std::vector<at::Tensor> x, y, predictions;
  data::Loader loader(data, part, 0);
  while (auto batch = loader.next()) {
    x.push_back(batch->tensor("x").to(at::kDouble));
    y.push_back(assets.targets_in_units(batch->tensor("y")));
    predictions.push_back(assets.targets_in_units(model.predict(batch->to(device))));
  }
  return {at::cat(x), at::cat(y), at::cat(predictions)};
}

// The simple baseline beside every model: least squares on the training rows.
at::Tensor straight_line(const data::DataModule& data, const at::Tensor& x) {
  const auto with_one = [](const at::Tensor& t) { return at::cat({t, at::ones({t.size(0), 1}, at::kDouble)}, 1); };
  const TableAssets& assets = assets_of(*data.assets());
  std::vector<at::Tensor> train_x, train_y;
  data::Loader loader(data, data::Part::kTrain, 0);
  while (auto batch = loader.next()) {
    train_x.push_back(batch->tensor("x").to(at::kDouble));
    train_y.push_back(assets.targets_in_units(batch->tensor("y")));
  }
  const at::Tensor a = with_one(at::cat(train_x));
  const at::Tensor weights = at::linalg_pinv(a).matmul(at::cat(train_y));
  return with_one(x).matmul(weights);
}

tasks::Report evaluate(const train::LoadedRun& run, const tasks::EvaluateRequest& request) {
  const auto& model = tasks::contract_of<Regressor>(*run.module, kName);
  const auto assets = std::dynamic_pointer_cast<const TableAssets>(run.assets);
  if (request.files.size() > 1) fail_usage("--input: expected one file of rows");
  const bool is_file = !request.files.empty();
  const auto evaluated =
      is_file ? tasks::of_files(request, std::make_unique<TableData>(read_table(request.files[0]), assets))
              : tasks::load_part(run, request);
  const data::DataModule& data = *evaluated.data;
  const auto evaluation = train::evaluate_module(*run.module, data, evaluated.part, run.device, request.progress);
  const Predicted predicted = predict_part(model, data, evaluated.part, run.device);
  tasks::Report report;
  report.facts = evaluated.facts(predicted.y.size(0), "rows");
  report.facts.insert(
      report.facts.end(),
      {{.key = "loss",
        .value = evaluation.value("loss"),
        .text = fmt::format("{:.4f} (mean square, standardised)", evaluation.value("loss"))},
       {.key = "r2", .value = predicted.r2(), .label = "R2"},
       {.key = "mean_absolute_error", .value = predicted.mean_absolute_error(), .label = "mean |error|"}});
  if (!is_file && data.size(data::Part::kTrain) > 0 && tasks::is_unchanged(run, data, data::Part::kTrain)) {
    report.facts.push_back({.key = "straight_line_r2",
                            .value = Predicted::r2(predicted.y, straight_line(data, predicted.x)),
                            .label = "R2 of a straight line"});
  }
  return report;
}

train::Judge judge() {
  return {
      .measures = {{.name = "r2", .better = train::Measure::Better::kHigher}},
      .run = [](const train::Module& module, const data::DataModule& data, data::Part part, at::Device device) {
        return std::vector<double>{predict_part(tasks::contract_of<Regressor>(module, kName), data, part, device).r2()};
      }};
}

class NumberPredictor : public tasks::Predictor {
 public:
  explicit NumberPredictor(const train::LoadedRun& run)
      : model_(tasks::contract_of<Regressor>(*run.module, kName)),
        assets_(assets_of(*run.assets)),
        device_(run.device) {}

  std::vector<tasks::Prediction> predict(const std::vector<std::string>& inputs) const override {
    const at::NoGradGuard no_grad;
    std::vector<tasks::Prediction> predictions(inputs.size());
    const auto [features, places] = tasks::read_each(inputs, "input", predictions, [this](const std::string& input) {
      return assets_.features({parse_row(input)});
    });
    if (features.empty()) return predictions;
    data::Batch batch;
    batch.tensors["x"] = at::cat(features);
    batch.examples = batch.items = static_cast<int64_t>(features.size());
    const at::Tensor y = assets_.targets_in_units(model_.predict(batch.to(device_))).contiguous();  // (rows, targets)
    for (size_t row = 0; row < places.size(); ++row) {
      describe_one(predictions[places[row]], inputs[places[row]], y[static_cast<int64_t>(row)]);
    }
    return predictions;
  }
  size_t batch_size() const override { return kRowsAtOnce; }

 private:
  static void describe_one(tasks::Prediction& prediction, const std::string& input, const at::Tensor& y) {
    nlohmann::ordered_json line = {{"input", parse_row(input)}, {"prediction", nlohmann::json::array()}};
    for (int64_t t = 0; t < y.size(0); ++t) {
      const auto value = y[t].item<double>();
      prediction.text += fmt::format("{}{:.9g}", t > 0 ? "\t" : "", value);
      line["prediction"].push_back(value);
    }
    prediction.json = line.dump();
  }

  const Regressor& model_;
  const TableAssets& assets_;
  at::Device device_;
};

}  // namespace

const tasks::Task& task() {
  static const tasks::Task task{
      .name = kName,
      .summary = "numbers out of numbers",
      .verb = "",
      .input = "row of numbers",
      .reads_lines = true,
      .example = "fovea predict runs/regression_line 1.5 2.5",
      .datasets = {data::data_entry<TableData, TableConfig, TableAssets>("table",
                                                                         "rows of numbers in a TSV or CSV file"),
                   data::data_entry<FunctionData, FunctionConfig, TableAssets>("noisy_function",
                                                                               "a curve with noise, made up")},
      .evaluate_options = [] { return std::make_shared<config::EmptySection>(); },
      .predict_options = [] { return std::make_shared<config::EmptySection>(); },
      .judge = judge,
      .evaluate = evaluate,
      .predictor = [](const train::LoadedRun& run,
                      const config::Section&) { return std::make_unique<NumberPredictor>(run); },
      .attend = attend,
      .attend_options = [] { return std::make_shared<config::EmptySection>(); },
      .script =
          [](const train::Module& module, const data::DataAssets& assets) {
            return script_recipe(tasks::contract_of<Regressor>(module, kName), assets_of(assets));
          },
      .propose = propose,
      .inspect = inspect};
  return task;
}

}  // namespace fovea::regression
