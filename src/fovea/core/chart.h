#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/core/series.h"

namespace fovea {

struct ChartOptions {
  int64_t width = 80;        // columns, of axis and labels too
  int64_t height = 12;       // lines between title and axis
  std::string title = {};    // above: what the curves show
  std::string x_label = {};  // at the end of the axis
  bool utf8 = true;          // braille dots; else plain ASCII
  bool colour = false;       // escape sequences for colours
};

/// Curves as lines of text:
///
///     loss
///     2.0 |*
///         |+**
///     1.5 | ++****
///         +--------
///         0    5   step
///     * training  + validation
///
/// Curves are lines of braille dots where colours, or being alone, tell them apart, else of different marks. The y axis
/// goes from the least to the greatest value. No lines where nothing is finite or there is no room: 16 columns, 2
/// lines.
std::vector<std::string> chart_lines(const std::vector<Series>& series, const ChartOptions& options);

}  // namespace fovea
