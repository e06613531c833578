#include "fovea/train/run_directory.h"

#include <algorithm>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

bool holds_run(const fs::path& path) {
  return fs::is_regular_file(path / "config.yaml");
}

// Empty, or left by a process killed while it made the run.
bool is_unused(const fs::path& path) {
  return std::all_of(fs::directory_iterator(path), fs::directory_iterator(), [](const fs::directory_entry& entry) {
    return entry.path().filename() == ".config.yaml.partial";
  });
}

// Something in a run's directory that no run has put there: not ours to remove.
std::optional<fs::path> foreign_entry(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == "config.yaml" || name == "metrics.jsonl" || name == "checkpoints" ||
                      name == ".config.yaml.partial" || name.starts_with("events.out.tfevents.");
    if (!ours) return entry.path();
  }
  return std::nullopt;
}

}  // namespace

RunDirectory RunDirectory::create(const fs::path& path, const std::string& config_yaml, Existing existing) {
  std::error_code error;
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path)) fail_usage("{}: a run needs a directory, this is a file", path.string());
    if (!is_unused(path)) {
      if (!holds_run(path)) {
        fail_usage("{}: the directory is not empty and holds no run (no config.yaml); choose another with --run-dir",
                   path.string());
      }
      if (existing == Existing::kRefuse) {
        fail_usage(
            "{}: there is a run already; go on with it (fovea train --resume {}), replace it (--overwrite), or "
            "choose another directory (--run-dir)",
            path.string(), path.string());
      }
      if (const auto foreign = foreign_entry(path)) {
        fail_usage(
            "{}: is no part of a run, so {} is not overwritten; move it away or choose another directory (--run-dir)",
            foreign->string(), path.string());
      }
      fs::remove_all(path, error);
      if (error) fail("{}: cannot be removed: {}", path.string(), error.message());
    }
  }
  fs::create_directories(path, error);
  if (error) fail("{}: cannot be made: {}", path.string(), error.message());
  RunDirectory run(path);
  run.replace_config(config_yaml);
  return run;
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!fs::is_directory(path)) fail_usage("{}: there is no such run directory", path.string());
  if (!holds_run(path)) fail_usage("{}: holds no run (no config.yaml)", path.string());
  return RunDirectory(path);
}

void RunDirectory::replace_config(const std::string& config_yaml) const {
  replace_file(config_path(), config_yaml);
}

}  // namespace fovea::train
