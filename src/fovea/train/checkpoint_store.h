#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::train {

/// The checkpoints of one run, made so that a process killed at any moment, a full disk or a pulled
/// plug leaves the last good one whole and findable, and so that damage is found before it is used:
///
///     RUN/checkpoints/step-40/           files, and manifest.json: size and CRC-32 of each
///                     last -> step-40    symbolic links, replaced by rename; where the file system has none,
///                     best -> step-20    files with that text
///                     .step-60.partial/  being written; what a kill leaves, the next write removes
///
/// It knows nothing of what the files hold. One process may write a run at a time (RunLock); any
/// number may read. Where `which` is asked for: "best", "last", "step-N", or "" for the best if one is marked,
/// else the last. Failures are fovea::Error with the path concerned; a `which` of another form is a
/// usage error.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path run_dir);

  /// Calls `writer` with a fresh directory that it fills with files (no subdirectories), then makes
  /// that directory checkpoint `step` as a whole, in place of one that may be there. Whatever is
  /// thrown on the way, the checkpoints are as before. When it returns, everything is on the disk
  /// (fsync).
  void write(int64_t step, const std::function<void(const std::filesystem::path& dir)>& writer);

  /// Lets `name` ("last" or "best") stand for checkpoint `step`, which must be there.
  void mark(const std::string& name, int64_t step);

  /// Removes all but the newest `keep_last` checkpoints. What "last" and "best" stand for, anything
  /// that is not a checkpoint, and a checkpoint that holds files its manifest does not list stay.
  void prune(int64_t keep_last);

  /// The directory of a checkpoint whose every file has been checked against the manifest. A
  /// missing, extra, cut or altered file is an Error that names it, what was expected and what was
  /// found, and another whole checkpoint if there is one. Where "last" (asked for by name or by "")
  /// is not marked or what it stands for is gone, as after a kill or a copy without links, the
  /// newest whole checkpoint is taken; where neither is marked, there is a warning that the best is not known.
  std::filesystem::path open(const std::string& which = "") const;

  /// What use(open(which)) gives. Where a training run has removed or replaced the checkpoint meanwhile, it looks
  /// again. `use` is called several times then.
  template <typename Use>
  auto read(const std::string& which, const Use& use) const {
    for (int looks = 1;; ++looks) {
      const std::string before = identity(which);
      try {
        return use(open(which));
      } catch (const Error&) {
        if (looks == kMostLooks || identity(which) == before) throw;
      }
    }
  }

  /// The directory that open(which) would give, without checking the files; nothing where there is none.
  std::optional<std::filesystem::path> directory_of(const std::string& which = "") const;

  /// The step that open(which) would give, without checking the files; nothing where there is none.
  std::optional<int64_t> step_of(const std::string& which = "") const;

  /// The steps of all checkpoints, ascending, damaged ones included.
  std::vector<int64_t> list() const;

  const std::filesystem::path& directory() const { return dir_; }  // RUN/checkpoints

 private:
  struct Found {
    std::filesystem::path dir;
    int64_t step;
  };
  static constexpr int kMostLooks = 100;

  /// Tells the directory that open(which) would take from any other that has been in its place.
  std::string identity(const std::string& which) const;
  std::optional<Found> find(const std::string& which) const;
  std::optional<Found> find_marked(const std::string& name) const;
  std::optional<Found> find_step(int64_t step) const;
  std::optional<Found> newest_whole(std::optional<int64_t> except = std::nullopt) const;
  void remove_leftovers() const;

  std::filesystem::path dir_;
};

}  // namespace fovea::train
