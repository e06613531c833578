#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/progress.h"
#include "fovea/data/data_module.h"
#include "fovea/train/module.h"

namespace fovea::train {

/// What was measured over a part of the data.
struct Evaluation {
  std::vector<std::pair<std::string, double>> values;  // in the order of Module::measures(); NaN of nothing
  int64_t count = 0;                                   // that the first one is a mean over: tokens, images

  /// Throws Error where there is no such measure.
  double value(const std::string& name) const;
};

/// What the module's validation_step measures, in evaluation mode and without gradients; each module's mode is
/// restored. Sums are added up by the names of the terms. `progress` shows how far it is.
Evaluation evaluate_module(Module& module, const data::DataModule& data, data::Part part, at::Device device,
                           Progress* progress = nullptr);

/// Scores that are no mean over examples (BLEU, F1 over spans): judged by the task.
struct Judge {
  std::vector<Measure> measures;
  /// The module is in evaluation mode. Returns a value for each measure.
  std::function<std::vector<double>(const Module&, const data::DataModule&, data::Part, at::Device)> run;
};

}  // namespace fovea::train
