#include "fovea/tasks/regression/attend.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"
#include "fovea/tasks/attention.h"
#include "fovea/tasks/regression/dataset.h"

namespace fovea::regression {
namespace {

// Rows of features in the data's own units, "1.25" or "1.25, 3".
std::vector<std::string> row_labels(const at::Tensor& features) {
  std::vector<std::string> labels;
  for (int64_t r = 0; r < features.size(0); ++r) {
    std::vector<std::string> numbers;
    for (int64_t c = 0; c < features.size(1); ++c)
      numbers.push_back(fmt::format("{:.4g}", features[r][c].item<double>()));
    labels.push_back(fmt::format("{}", fmt::join(numbers, ", ")));
  }
  return labels;
}

}  // namespace

tasks::Report attend(const train::LoadedRun& run, const tasks::AttendRequest& request) {
  const at::NoGradGuard no_grad;
  const auto& model = tasks::contract_of<Regressor>(*run.module, "regression");
  const auto& assets = dynamic_cast<const TableAssets&>(*run.assets);
  const at::Tensor keys = model.keys();
  if (!keys.defined()) fail_usage("the model of this run ({}) has no attention to show", run.config.model.name);
  std::vector<std::vector<double>> rows;
  for (const auto& input : request.inputs) rows.push_back(parse_row(input));
  const at::Tensor x = assets.features(rows);
  data::Batch batch;
  batch.tensors["x"] = x.index_select(0, x.select(1, 0).argsort(/*stable=*/true, /*dim=*/0));
  batch.examples = batch.items = x.size(0);
  nn::AttentionRecorder recorder;
  const at::Tensor y = assets.targets_in_units(model.predict(batch.to(run.device), &recorder));

  const at::Tensor key_order = keys.to(at::kCPU).select(1, 0).argsort(/*stable=*/true, /*dim=*/0);
  const auto in_units = [&](const at::Tensor& features) {
    return row_labels(features.to(at::kCPU, at::kDouble) * assets.feature_stddevs() + assets.feature_means());
  };
  const auto queries = in_units(batch.tensors["x"]);
  tasks::Report report;
  for (const auto& [path, weights] : recorder.records()) {
    report.attentions.push_back(tasks::described(path, "kernel", weights[0].to(at::kCPU).index_select(2, key_order),
                                                 queries, in_units(keys.to(at::kCPU).index_select(0, key_order))));
  }
  tasks::check_recorded(report.attentions, run.config.model.name);
  report.facts.push_back({.key = "rows", .value = keys.size(0), .label = "remembered rows"});
  tasks::Report::Grid predictions{
      .key = "predictions", .columns = {{"input", "input"}, {"prediction", "prediction"}}, .rows = {}};
  const auto outputs = row_labels(y);
  for (size_t i = 0; i < queries.size(); ++i) predictions.rows.push_back({queries[i], outputs[i]});
  report.grids.push_back(std::move(predictions));
  return report;
}

}  // namespace fovea::regression
