#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/series.h"

namespace fovea::train {

inline constexpr const char* kMetricsFile = "metrics.jsonl";

/// What MetricsLog has written, read again.
struct MetricsFile {
  struct Line {
    std::string kind;  // "train", "epoch", "validation"
    int64_t step = 0;
    int64_t epoch = 0;                                        // from 1
    std::vector<std::pair<std::string, double>> values = {};  // as written; NaN for null

    std::optional<double> value(const std::string& name) const;
  };

  std::vector<Line> lines;
  int64_t damaged = 0;       // lines that are left out
  std::string first_damage;  // "runs/a/metrics.jsonl:3: expected JSON, ..."

  /// A measure over the steps: of the lines of that kind that have it.
  Series series(const std::string& kind, const std::string& measure) const;
  /// The last line of that kind, or null.
  const Line* last(const std::string& kind) const;
};

/// Reads the file, or what whole lines its last `bytes` hold (line numbers in `first_damage` count from there). A last
/// line without its end is still being written and is left out. Throws a usage Error where there is no such file.
MetricsFile read_metrics(const std::filesystem::path& path, uint64_t bytes = UINT64_MAX);

}  // namespace fovea::train
