#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/train/event_log.h"

namespace fovea::train {

/// Numbers of a run, written twice: as lines of JSON in metrics.jsonl and as TensorBoard events.
class MetricsLog {
 public:
  using Values = std::vector<std::pair<std::string, double>>;

  /// `bytes`: how much of metrics.jsonl to keep; 0 for a fresh run. `step`: how many are done;
  /// what older event files have beyond, written by a killed run, is no longer shown.
  MetricsLog(const std::filesystem::path& run_dir, uint64_t bytes, int64_t step);
  ~MetricsLog();

  /// One line {"kind": "train", "step": 12, "epoch": 1, ...}; events are tagged "train/loss" and so on.
  void write(const std::string& kind, int64_t step, int64_t epoch, const Values& values);

  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void take_up();

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  EventLog events_;
};

}  // namespace fovea::train
