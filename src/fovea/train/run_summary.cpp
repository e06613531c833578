#include "fovea/train/run_summary.h"

#include <algorithm>
#include <limits>
#include <map>

#include "fovea/core/error.h"
#include "fovea/core/numbers.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/checkpoint_store.h"
#include "fovea/train/manifest.h"
#include "fovea/train/metrics_file.h"
#include "fovea/train/run_lock.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMetricsEnd = 1 << 14;  // bytes of metrics.jsonl that hold its last lines
constexpr int kDeepest = 3;                // directories below the one that is given

std::string needed_setting(const RunSummary& run, const std::string& key) {
  const auto value = run.setting(key);
  if (!value) fail_usage("{}: {} is missing", (run.path / kConfigFile).string(), key);
  return *value;
}

double number_setting(const RunSummary& run, const std::string& key, double otherwise) {
  const auto value = parse_double(run.setting(key).value_or(""));
  return value ? *value : otherwise;
}

void read_settings(RunSummary& run) {
  run.settings = config::load_yaml(run.path / kConfigFile);
  run.model = needed_setting(run, "model.name");
  run.data = needed_setting(run, "data.name");
  const std::string watch = run.setting("train.watch").value_or("validation");
  run.watched = watch == "validation" || watch == "train" ? "loss" : watch;
  run.max_epochs = static_cast<int64_t>(number_setting(run, "train.max_epochs", 0));
}

// Compares the sizes of its files with its manifest.
void check_sizes(const fs::path& checkpoint) {
  for (const Manifest::File& file : read_manifest(checkpoint).files) {
    std::error_code error;
    const uint64_t size = fs::file_size(checkpoint / file.name, error);
    if (error) fail_usage("{}: {}", (checkpoint / file.name).string(), error.message());
    if (size != file.size) {
      fail_usage("{}: expected {} bytes, found {}", (checkpoint / file.name).string(), file.size, size);
    }
  }
}

// The state of the last checkpoint; of a fresh run where there is none. A training run may remove it meanwhile.
TrainState read_last_state(const CheckpointStore& store) {
  std::error_code ignored;
  if (!fs::exists(store.directory(), ignored)) return {};
  for (std::optional<fs::path> looked;;) {
    const auto checkpoint = store.directory_of("last");
    if (!checkpoint) {
      if (store.list().empty()) return {};
      fail_usage("{}: no checkpoint is whole", store.directory().string());
    }
    try {
      check_sizes(*checkpoint);
      return load_state(*checkpoint / kStateFile);
    } catch (const Error&) {
      if (looked == checkpoint) throw;
      looked = checkpoint;
    }
  }
}

// Whether the training went as far as its settings say.
bool is_complete(const RunSummary& run, const TrainState& state) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto reached = [&](double value, const char* key) { return value >= number_setting(run, key, kNever); };
  return reached(static_cast<double>(state.epoch), "train.max_epochs") ||
         reached(static_cast<double>(state.step), "train.max_steps") ||
         reached(state.elapsed_seconds / 60, "train.max_minutes") ||
         reached(static_cast<double>(state.validations_without_best), "train.patience");
}

// What the last lines of metrics know better than the last checkpoint: the time, and the validation at the end.
void read_metrics_end(RunSummary& run, const CheckpointStore& store) {
  std::error_code ignored;
  if (!fs::is_regular_file(run.path / kMetricsFile, ignored)) return;
  const MetricsFile metrics = read_metrics(run.path / kMetricsFile, kMetricsEnd);
  for (const auto& line : metrics.lines) run.minutes = std::max(run.minutes, line.value("seconds").value_or(0) / 60);
  const auto marked = store.step_of("best");
  const MetricsFile::Line* validation = metrics.last("validation");
  if (validation == nullptr || !marked || *marked == run.best_step || validation->step != *marked) return;
  const bool is_named = run.setting("train.watch").value_or("validation") != "validation";
  const auto value = is_named || validation->values.empty() ? validation->value(run.watched)
                                                            : std::optional(validation->values.front().second);
  if (!value) return;
  run.best = value;
  run.best_step = *marked;
}

bool is_run_directory(const fs::path& path) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(path / name, ignored); };
  const bool is_export = has(kConfigFile) && has(kModelFile);
  return !is_export && (has("checkpoints") || has(kConfigFile) || has(RunLock::kFile));
}

void find_runs_below(const fs::path& dir, int depth, std::vector<fs::path>& runs) {
  if (is_run_directory(dir)) return runs.push_back(dir);
  if (depth == 0) return;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const bool is_hidden = at->path().filename().string().starts_with(".");
    if (!is_hidden && at->is_directory(ignored)) find_runs_below(at->path(), depth - 1, runs);
  }
}

}  // namespace

std::optional<std::string> RunSummary::setting(const std::string& key) const {
  if (!settings.is_map()) return std::nullopt;
  const auto* entry = settings.find_path(key);
  if (entry == nullptr || entry->value.is_list() || entry->value.is_map()) return std::nullopt;
  return entry->value.is_null() ? "null" : entry->value.text;
}

RunSummary summarize_run(const fs::path& path) {
  RunSummary run{.path = path};
  const bool is_alive = RunLock::is_held(path);
  try {
    read_settings(run);
    const CheckpointStore store(path);
    const TrainState state = read_last_state(store);
    run.epochs = state.epoch;
    run.best = state.best;
    run.best_step = state.best_step;
    run.minutes = state.elapsed_seconds / 60;
    run.state = is_complete(run, state) ? RunState::kDone : RunState::kStopped;
    read_metrics_end(run, store);
  } catch (const Error& error) {
    run.state = RunState::kBroken;
    run.problem = error.what();
  }
  if (is_alive) {  // what seems broken may only be half written
    run.state = RunState::kTraining;
    run.problem.clear();
  }
  return run;
}

std::vector<fs::path> find_runs(const fs::path& dir) {
  std::error_code ignored;
  if (!fs::is_directory(dir, ignored)) fail_usage("{}: expected a directory of runs, there is none", dir.string());
  std::vector<fs::path> runs;
  find_runs_below(dir, kDeepest, runs);
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::vector<std::string> short_names(const std::vector<fs::path>& runs) {
  std::vector<std::string> names;
  std::map<std::string, int> times;
  for (const fs::path& run : runs) {
    const fs::path full = fs::absolute(run).lexically_normal();
    names.push_back((full.has_filename() ? full : full.parent_path()).filename().string());
    ++times[names.back()];
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (times[names[i]] > 1) names[i] = runs[i].string();
  }
  return names;
}

}  // namespace fovea::train
