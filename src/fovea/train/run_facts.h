#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fovea/train/experiment.h"
#include "fovea/train/metrics_file.h"
#include "fovea/train/run_summary.h"

namespace fovea::train {

/// What a training took, by name: epochs, minutes, parameters, and the median of each rate that it wrote
/// ("images_per_second"). The model is built to count its parameters; they are left out where that does not work.
std::vector<std::pair<std::string, double>> training_facts(const RunSummary& run, const ExperimentConfig& config,
                                                           const MetricsFile& metrics);

}  // namespace fovea::train
