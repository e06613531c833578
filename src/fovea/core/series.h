#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace fovea {

/// Points of a curve in the order of x.
struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};  // of the same length; a y that is not finite is a gap
  size_t style = 0;                    // which colour, dashes and mark; series of one thing share them

  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

/// The exponential moving average of the values, as TensorBoard smooths: a value keeps the share 1 - `weight` of
/// itself, and the first values count in full. `weight` from 0 (as it is) to below 1. Gaps stay gaps and count nothing.
Series smoothed(Series series, double weight);

/// The weight that makes a curve of so many values readable: the average reaches over a fiftieth of them. 0 for 50 or
/// fewer.
double fitting_weight(size_t count);

/// At most `most` (2 or more) of the points, evenly, the first and the last among them.
Series thinned(Series series, size_t most);

struct Range {
  double low = 0, high = 1;
};

/// From the least to the greatest finite value, made wider where they are the same but for rounding. Nothing without a
/// finite value.
std::optional<Range> range_of(const std::vector<double>& values);

/// Round numbers (1, 2 or 5 times a power of ten apart) within the range, at most `most` (1 or more) of them.
std::vector<double> round_ticks(const Range& range, int most);

/// A tick as text: "0.5", "1000", "1e-05".
std::string tick_text(double value);

}  // namespace fovea
