#include "fovea/core/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fovea {

Series smoothed(Series series, double weight) {
  double mean = 0, counted = 0;  // of all values so far, and how much of them is in it
  for (double& value : series.y) {
    if (!std::isfinite(value)) continue;
    mean = weight * mean + (1 - weight) * value;
    counted = weight * counted + (1 - weight);
    value = mean / counted;
  }
  return series;
}

double fitting_weight(size_t count) {
  constexpr double kParts = 50;
  return std::max(0.0, 1 - kParts / static_cast<double>(std::max<size_t>(count, 1)));
}

Series thinned(Series series, size_t most) {
  const size_t count = series.x.size();
  if (count <= most) return series;
  for (size_t i = 0; i < most; ++i) {
    const size_t from = i * (count - 1) / (most - 1);  // never below i
    series.x[i] = series.x[from];
    series.y[i] = series.y[from];
  }
  series.x.resize(most);
  series.y.resize(most);
  return series;
}

std::optional<Range> range_of(const std::vector<double>& values) {
  std::optional<Range> range;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    if (!range) range = Range{value, value};
    range->low = std::min(range->low, value);
    range->high = std::max(range->high, value);
  }
  // Values that differ by rounding only are the same.
  constexpr double kRounding = 1e-9;
  const double size = range ? std::max(std::abs(range->low), std::abs(range->high)) : 0;
  if (range && range->high - range->low <= kRounding * size) {
    const double around = std::max(size * 0.1, 1e-9);
    *range = {range->low - around, range->high + around};
  }
  return range;
}

std::vector<double> round_ticks(const Range& range, int most) {
  double power = std::pow(10, std::floor(std::log10((range.high - range.low) / most)));
  if (!std::isfinite(power) || power <= 0) return {};
  for (;; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double step = factor * power;
      const double first = std::ceil(range.low / step - 1e-9), last = std::floor(range.high / step + 1e-9);
      if (last - first + 1 > most) continue;
      std::vector<double> ticks;
      for (double at = first; at <= last; ++at) ticks.push_back(at == 0 ? 0 : at * step);
      return ticks;
    }
  }
}

std::string tick_text(double value) {
  return fmt::format("{:.6g}", value);
}

}  // namespace fovea
