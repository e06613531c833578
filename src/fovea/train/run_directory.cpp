#include "fovea/train/run_directory.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

bool holds_run(const fs::path& path) {
  return fs::is_regular_file(path / "config.yaml");
}

constexpr const char* kDraft = ".run.partial";  // where replace() makes the new run

// Whether `name` may lie in the directory of a run that never began.
bool is_left_over(const std::string& name) {
  return name == ".config.yaml.partial" || name == kDraft || name == RunLock::kFile;
}

// Empty, or left by a process killed while it made the run.
bool is_unused(const fs::path& path) {
  return std::all_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) { return is_left_over(entry.path().filename().string()); });
}

// Something in a run's directory that no run has put there: not ours to remove.
std::optional<fs::path> foreign_entry(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == "config.yaml" || name == "metrics.jsonl" || name == "train.log" ||
                      name == "checkpoints" || is_left_over(name) || name.starts_with("events.out.tfevents.");
    if (!ours) return entry.path();
  }
  return std::nullopt;
}

// Throws a usage Error unless a new run may have this place.
void check_place(const fs::path& path, RunDirectory::Existing existing) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  if (!fs::is_directory(path)) fail_usage("{}: a run needs a directory, this is a file", path.string());
  if (is_unused(path)) return;
  if (!holds_run(path)) {
    fail_usage("{}: the directory is not empty and holds no run (no config.yaml); choose another with --run-dir",
               path.string());
  }
  if (existing == RunDirectory::Existing::kRefuse) {
    fail_usage(
        "{}: the run already exists; continue it (fovea train --resume {}), replace it (--overwrite), or choose "
        "another directory (--run-dir)",
        path.string(), path.string());
  }
  if (const auto foreign = foreign_entry(path)) {
    fail_usage(
        "{}: is no part of a run, so {} is not overwritten; move it away or choose another directory (--run-dir)",
        foreign->string(), path.string());
  }
}

void rename_entry(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail("{}: cannot be replaced: {}", to.string(), error.message());
}

// Removes what an earlier run left, but for `kept`.
void remove_earlier(const fs::path& path, const std::set<std::string>& kept) {
  for (const auto& entry : fs::directory_iterator(path)) {
    if (kept.contains(entry.path().filename().string())) continue;
    std::error_code error;
    fs::remove_all(entry.path(), error);
    if (error) fail("{}: cannot be removed: {}", entry.path().string(), error.message());
  }
}

// A directory, empty at first and gone at the end.
struct Draft {
  explicit Draft(fs::path where) : path(std::move(where)) {
    std::error_code error;
    fs::remove_all(path, error);
    fs::create_directory(path, error);
    if (error) fail("{}: cannot be made: {}", path.string(), error.message());
  }
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  const fs::path path;
};

}  // namespace

RunDirectory RunDirectory::claim(const fs::path& path, Existing existing) {
  check_place(path, existing);
  RunDirectory run(path, std::make_shared<const RunLock>(path));
  check_place(path, existing);  // another process may have been here since
  return run;
}

void RunDirectory::begin(const std::string& config_yaml) const {
  // The config comes last: a kill on the way leaves what can be overwritten.
  remove_earlier(path_, {"config.yaml", RunLock::kFile});
  replace_config(config_yaml);
}

void RunDirectory::replace(const std::string& config_yaml, const std::function<void(CheckpointStore&)>& write) const {
  const Draft draft(path_ / kDraft);
  const RunDirectory made(draft.path);
  made.replace_config(config_yaml);
  CheckpointStore store = made.checkpoints();
  write(store);
  sync_path(draft.path);

  const fs::path checkpoints = this->checkpoints().directory(), replaced = draft.path / "replaced";
  const bool replaces = fs::exists(fs::symlink_status(checkpoints));
  if (replaces) rename_entry(checkpoints, replaced);
  try {
    rename_entry(store.directory(), checkpoints);
    rename_entry(made.config_path(), config_path());  // last: without it this is no run
  } catch (...) {
    std::error_code ignored;
    fs::rename(checkpoints, store.directory(), ignored);
    if (replaces) fs::rename(replaced, checkpoints, ignored);
    throw;
  }
  remove_earlier(path_, {"config.yaml", "checkpoints", RunLock::kFile});
  sync_path(path_);
}

RunDirectory RunDirectory::create(const fs::path& path, const std::string& config_yaml, Existing existing) {
  RunDirectory run = claim(path, existing);
  run.begin(config_yaml);
  return run;
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!fs::is_directory(path)) fail_usage("{}: there is no such run directory", path.string());
  if (!holds_run(path)) fail_usage("{}: holds no run (no config.yaml)", path.string());
  return RunDirectory(path);
}

RunDirectory RunDirectory::open_to_write(const fs::path& path) {
  open(path);
  RunDirectory run(path, std::make_shared<const RunLock>(path));
  open(path);  // it may have gone since
  return run;
}

void RunDirectory::replace_config(const std::string& config_yaml) const {
  replace_file(config_path(), config_yaml);
}

}  // namespace fovea::train
