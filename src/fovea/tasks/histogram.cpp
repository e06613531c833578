#include "fovea/tasks/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace fovea::tasks {
namespace {

constexpr int64_t kMostBins = 12;
constexpr double kInBins = 0.999;  // of the values; what is beyond is in the last bin

// 1, 2, 5, 10, 20, 50 ...: the least that makes so few bins.
int64_t round_width(int64_t range) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t digit : {1, 2, 5}) {
      if (range / (digit * power) < kMostBins || power > std::numeric_limits<int64_t>::max() / 100)
        return digit * power;
    }
  }
}

}  // namespace

std::string bar(double share, int64_t width) {
  static constexpr auto kEighths = std::to_array<const char*>({"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"});
  if (!(share > 0)) return "";
  const auto eighths = std::max<int64_t>(1, std::llround(std::min(share, 1.0) * static_cast<double>(8 * width)));
  std::string text;
  for (int64_t i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[static_cast<size_t>(eighths % 8)];
}

std::string sparkline(const std::vector<int64_t>& counts) {
  static constexpr auto kHeights = std::to_array<const char*>({"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"});
  const int64_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::string text;
  for (const int64_t count : counts) text += count == 0 ? " " : kHeights[static_cast<size_t>((count * 8 - 1) / most)];
  return text;
}

Report::Grid histogram(const std::string& key, const std::string& what, const std::vector<int64_t>& values) {
  Report::Grid grid{.key = key,
                    .columns = {{.key = "range", .label = what, .in_json = false},
                                {.key = "from", .label = "", .in_table = false},
                                {.key = "to", .label = "", .in_table = false},
                                {"count", "count"},
                                {.key = "bar", .label = "", .in_json = false}},
                    .rows = {}};
  if (values.empty()) return grid;
  std::vector<int64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto nearly_all = static_cast<size_t>(kInBins * static_cast<double>(sorted.size() - 1));
  const int64_t most = sorted.back(), width = round_width(sorted[nearly_all] - sorted.front());
  const int64_t first = sorted.front() / width * width;
  const int64_t bins = std::min<int64_t>((most - first) / width + 1, (sorted[nearly_all] - first) / width + 1);
  std::vector<int64_t> counts(static_cast<size_t>(bins), 0);
  for (const int64_t value : sorted) ++counts[static_cast<size_t>(std::min(bins - 1, (value - first) / width))];
  const int64_t highest = *std::max_element(counts.begin(), counts.end());
  for (int64_t b = 0; b < bins; ++b) {
    const int64_t from = first + b * width, to = b + 1 == bins ? std::max(most, from) : from + width - 1;
    const int64_t count = counts[static_cast<size_t>(b)];
    grid.rows.push_back({from == to ? std::to_string(from) : fmt::format("{} to {}", from, to), from, to, count,
                         bar(static_cast<double>(count) / static_cast<double>(highest))});
  }
  return grid;
}

}  // namespace fovea::tasks
