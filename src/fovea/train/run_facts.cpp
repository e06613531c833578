#include "fovea/train/run_facts.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/checkpoint_store.h"

namespace fovea::train {
namespace {

constexpr std::string_view kRate = "_per_second";

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Builds the model: the checkpoint's tensors are more than its parameters. Nothing where that does not work.
std::optional<int64_t> parameters_of(const RunSummary& run, const ExperimentConfig& config) {
  try {
    const auto checkpoint = CheckpointStore(run.path).directory_of();
    if (!checkpoint) return std::nullopt;
    const auto assets = config.data_entry().load_assets(*config.data.section, *checkpoint);
    return count_parameters(config.make_model(assets->spec())->network());
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::pair<std::string, double>> training_facts(const RunSummary& run, const ExperimentConfig& config,
                                                           const MetricsFile& metrics) {
  std::vector<std::pair<std::string, double>> facts = {{"epochs", static_cast<double>(run.epochs)},
                                                       {"minutes", run.minutes}};
  if (const auto parameters = parameters_of(run, config)) {
    facts.emplace_back("parameters", static_cast<double>(*parameters));
  }
  if (const auto* line = metrics.last("train")) {
    for (const auto& [name, value] : line->values) {
      if (name.ends_with(kRate)) facts.emplace_back(name, median_of(metrics.series("train", name).y));
    }
  }
  return facts;
}

}  // namespace fovea::train
