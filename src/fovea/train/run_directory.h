#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "fovea/train/checkpoint_store.h"
#include "fovea/train/run_lock.h"

namespace fovea::train {

/// What a run leaves behind: config.yaml, train.log, metrics.jsonl, TensorBoard events, checkpoints/.
class RunDirectory {
 public:
  enum class Existing { kRefuse, kOverwrite };

  /// The place for a new run, locked as long as this or a copy of it lives. Nothing that is there is changed; begin()
  /// does that. An existing run is a usage Error unless it is to be overwritten; so is a directory that holds anything
  /// else than a run's own files. A run that another process writes is an Error.
  static RunDirectory claim(const std::filesystem::path& path, Existing existing);
  /// Removes the run that was there and starts the new one with this resolved config.
  void begin(const std::string& config_yaml) const;
  /// Makes the new run as a whole, aside, and then puts it in the place of the one that was there: this config, and the
  /// checkpoints that `write` makes. Whatever is thrown on the way, what was there is as before.
  void replace(const std::string& config_yaml, const std::function<void(CheckpointStore&)>& write) const;
  /// claim() and begin().
  static RunDirectory create(const std::filesystem::path& path, const std::string& config_yaml, Existing existing);

  /// A run that is there, to read it. Throws a usage Error unless the directory holds a run.
  static RunDirectory open(const std::filesystem::path& path);
  /// To write to it: locked as claim() does.
  static RunDirectory open_to_write(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.yaml"; }
  std::filesystem::path log_path() const { return path_ / "train.log"; }
  CheckpointStore checkpoints() const { return CheckpointStore(path_); }

  void replace_config(const std::string& config_yaml) const;

 private:
  explicit RunDirectory(std::filesystem::path path, std::shared_ptr<const RunLock> lock = nullptr)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  std::shared_ptr<const RunLock> lock_;
};

}  // namespace fovea::train
