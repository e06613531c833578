#pragma once

#include <filesystem>
#include <string>

#include "fovea/train/checkpoint_store.h"

namespace fovea::train {

/// What a run leaves behind: config.yaml, metrics.jsonl, TensorBoard events, checkpoints/.
class RunDirectory {
 public:
  enum class Existing { kRefuse, kOverwrite };

  /// A fresh directory for a run with this resolved config. An existing run is a usage Error, or is removed with
  /// kOverwrite; a directory that holds anything else than a run's own files is never touched.
  static RunDirectory create(const std::filesystem::path& path, const std::string& config_yaml, Existing existing);
  /// One that is there already. Throws a usage Error unless it holds a run.
  static RunDirectory open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.yaml"; }
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  CheckpointStore checkpoints() const { return CheckpointStore(path_); }

  void replace_config(const std::string& config_yaml) const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace fovea::train
