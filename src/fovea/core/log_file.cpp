#include "fovea/core/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace fovea {

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LogFile::write(std::string_view text) {
  if (fd_ < 0) fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) return;
  while (!text.empty()) {
    const ssize_t done = ::write(fd_, text.data(), text.size());
    if (done > 0) {
      text.remove_prefix(static_cast<size_t>(done));
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace fovea
