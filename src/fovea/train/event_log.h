#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/core/file.h"

namespace fovea::train {

/// Writes scalars for TensorBoard (`tensorboard --logdir runs`). Each EventLog is one new file,
/// events.out.tfevents.<seconds>.<host>.<pid>.<n>, in the directory of the run; a resumed run adds
/// another. Errors are fovea::Error with the path.
class EventLog {
 public:
  /// Creates the file in `dir`, which is made if need be. `resume_step`, where a run goes on: the
  /// first step of this file; what earlier files have from that step on, written before a kill, is
  /// dropped by TensorBoard.
  explicit EventLog(const std::filesystem::path& dir, std::optional<int64_t> resume_step = std::nullopt);

  /// One point of the curve `tag`, e.g. "train/loss". The value is stored as float. It goes to the
  /// kernel at once, so that a killed process loses nothing and a running TensorBoard sees it.
  void scalar(std::string_view tag, int64_t step, double value);

  /// fsync.
  void flush() { file_->sync(); }

  const std::filesystem::path& path() const { return file_->path(); }

 private:
  std::unique_ptr<OutputFile> file_;
};

}  // namespace fovea::train
