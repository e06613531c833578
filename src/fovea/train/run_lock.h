#pragma once

#include <filesystem>
#include <vector>

namespace fovea::train {

/// The one lock of a run. Every writer takes it first and holds it to its end: training, resuming, overwriting,
/// importing. A process that is killed gives it up.
///
/// It is a file RUN/.lock, locked by flock and removed at the end. It holds the number of the process that has it.
class RunLock {
 public:
  /// Makes the directory where there is none. Throws Error naming the run and the process where another one has the
  /// lock; nothing is changed then. A file system without locks is warned of.
  explicit RunLock(std::filesystem::path dir);
  /// Where no run was begun, the directories that were made for it go too.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  static constexpr const char* kFile = ".lock";

  /// Whether a process has the lock of the run. It takes the lock for a moment; whoever wants it then tries again.
  static bool is_held(const std::filesystem::path& dir);

 private:
  void make_directories();
  void remove_directories() const;
  bool take();

  std::filesystem::path dir_;
  std::vector<std::filesystem::path> made_;  // from the outermost on
  int fd_ = -1;
};

}  // namespace fovea::train
