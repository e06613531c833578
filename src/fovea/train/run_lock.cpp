#include "fovea/train/run_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr int kTries = 20;  // while is_held() of another process has the lock
constexpr auto kPause = std::chrono::milliseconds(5);

// Returns 0 or the error.
int lock_exclusively(int fd) {
  for (int tries = 1;; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK || tries == kTries) return errno;
    std::this_thread::sleep_for(kPause);
  }
}

// Whether the path still names the file that is open: its last owner may have removed it in between.
bool is_named(int fd, const fs::path& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

std::string owner_of(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size() - 1, 0);
  const std::string number(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return number.empty() ? "" : " (process " + number + ")";
}

}  // namespace

RunLock::RunLock(fs::path dir) : dir_(std::move(dir)) {
  make_directories();
  try {
    while (!take()) {
    }
  } catch (...) {
    if (fd_ >= 0) ::close(fd_);
    remove_directories();
    throw;
  }
}

RunLock::~RunLock() {
  // While it is still held: nobody else can have locked this file.
  ::unlink((dir_ / kFile).c_str());
  ::close(fd_);
  std::error_code ignored;
  if (!fs::exists(dir_ / "config.yaml", ignored)) remove_directories();
}

bool RunLock::is_held(const fs::path& dir) {
  const int fd = ::open((dir / kFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

void RunLock::make_directories() {
  std::error_code error;
  for (fs::path path = dir_; !path.empty() && !fs::exists(path, error); path = path.parent_path()) {
    made_.insert(made_.begin(), path);
  }
  fs::create_directories(dir_, error);
  if (error) fail("{}: cannot be made: {}", dir_.string(), error.message());
}

// Those that are empty: rmdir leaves the others.
void RunLock::remove_directories() const {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) ::rmdir(path->c_str());
}

// False: the file was removed between opening and locking it.
bool RunLock::take() {
  const fs::path path = dir_ / kFile;
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno("cannot write", path, errno);
  if (const int error = lock_exclusively(fd_); error != 0) {
    if (error == EWOULDBLOCK) {
      fail("{}: another process{} is writing this run; wait for its end or stop it", dir_.string(), owner_of(fd_));
    }
    if (error == EINTR) return false;
    spdlog::warn("{}: cannot be locked here ({}); do not let two programs write one run", path.string(),
                 std::generic_category().message(error));
    return true;
  }
  if (!is_named(fd_, path)) return false;
  const std::string number = std::to_string(::getpid());
  // For messages only, so a full disk is no reason to stop.
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, number.data(), number.size(), 0) < 0) errno = 0;
  return true;
}

}  // namespace fovea::train
