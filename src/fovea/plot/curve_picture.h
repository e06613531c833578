#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/plot/curves.h"
#include "fovea/plot/gnuplot.h"

namespace fovea::plot {

/// The panels one above the other, with one x axis: a colour and dashes for each run, points for validation.
Picture picture_of(const Curves& curves);

/// The same as lines of text for a terminal of `width` columns.
std::vector<std::string> curve_lines(const Curves& curves, int64_t width, bool utf8, bool colour);

}  // namespace fovea::plot
