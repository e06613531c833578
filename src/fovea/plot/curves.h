#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/core/series.h"

namespace fovea::plot {

enum class Axis { kStep, kEpoch };
constexpr auto enum_names(Axis) {
  return std::to_array<EnumName<Axis>>({{Axis::kStep, "step"}, {Axis::kEpoch, "epoch"}});
}

struct CurveOptions {
  std::vector<std::string> measures = {};       // none: the loss and what each run watches
  std::optional<double> smooth = std::nullopt;  // weight for training curves; unset: by their number of points
  Axis x = Axis::kStep;
};

/// A measure of a run, in training or in validation.
struct Curve {
  Series series;  // named "NAME, training"
  size_t run = 0;
  bool is_validation = false;
};

/// The curves of one measure, on axes of their own.
struct Panel {
  std::string measure;
  std::vector<Curve> curves = {};
};

/// Learning curves of one or several runs.
struct Curves {
  std::string x_label;
  size_t runs = 0;
  std::vector<Panel> panels = {};
};

/// Reads metrics.jsonl of the runs. Warns of damaged lines, and of a run that has nothing to draw. Throws a usage Error
/// where a measure is in no run, and where nothing is left.
Curves read_curves(const std::vector<std::filesystem::path>& runs, const CurveOptions& options);

}  // namespace fovea::plot
