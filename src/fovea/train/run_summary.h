#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/document.h"
#include "fovea/core/enum_names.h"
#include "fovea/train/train_state.h"

namespace fovea::train {

enum class RunState {
  kTraining,  // a process has its lock
  kDone,      // as long as its settings say
  kStopped,   // before that, or not begun
  kBroken,    // its settings or its last checkpoint cannot be used
};
constexpr auto enum_names(RunState) {
  return std::to_array<EnumName<RunState>>({{RunState::kTraining, "training"},
                                            {RunState::kDone, "done"},
                                            {RunState::kStopped, "stopped"},
                                            {RunState::kBroken, "broken"}});
}

/// What can be known of a run from its small files, in about a millisecond.
struct RunSummary {
  std::filesystem::path path;
  RunState state = RunState::kStopped;
  std::string problem = {};           // of a broken run: the file and what is wrong with it
  std::string model = {}, data = {};  // their names; empty if unknown
  int64_t epochs = 0;                 // that are done and saved
  int64_t max_epochs = 0;             // 0: unknown
  std::string watched = {};           // the measure that decides which checkpoint is the best: "loss"; empty if unknown
  std::optional<double> best = {};    // of it
  int64_t best_step = 0;
  double minutes = 0;          // of training
  config::Node settings = {};  // config.yaml

  /// The text of a setting, "model.num_heads"; nothing where the run has none of that name, or a list or section.
  std::optional<std::string> setting(const std::string& key) const;
};

/// Never throws for what is wrong with a run: such a run is broken. Checkpoints' sizes are compared with their
/// manifests, not their checksums.
RunSummary summarize_run(const std::filesystem::path& path);

/// The run directories below `dir`, or `dir` itself, by path: what has a config.yaml, checkpoints or a lock. Exports,
/// hidden directories, those inside runs and those more than three levels down are not looked at. Throws a usage Error
/// for what is no directory.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& dir);

/// What to call runs that are shown together: the last parts of their paths, or the whole paths of those that share it.
std::vector<std::string> short_names(const std::vector<std::filesystem::path>& runs);

}  // namespace fovea::train
