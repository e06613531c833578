#include "fovea/train/metrics_log.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/train/metrics_file.h"

namespace fovea::train {

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, uint64_t bytes, int64_t step)
    : path_(run_dir / kMetricsFile), bytes_(bytes), events_(run_dir, step + 1) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno("cannot write", path_, errno);
  try {
    take_up();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

// What a killed process wrote after its last checkpoint will be written again; where the file is shorter than the
// checkpoint says, what is left of it is kept.
void MetricsLog::take_up() {
  const std::string content = read_file(path_);
  if (content.size() < bytes_) {
    spdlog::warn("{}: has {}, the checkpoint says {}: earlier lines are missing", path_.string(),
                 counted(content.size(), "byte"), bytes_);
    const size_t whole = content.rfind('\n');
    bytes_ = whole == std::string::npos ? 0 : whole + 1;
  }
  if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0 || ::lseek(fd_, 0, SEEK_END) < 0) {
    fail_errno("cannot cut", path_, errno);
  }
}

MetricsLog::~MetricsLog() {
  ::close(fd_);
}

void MetricsLog::write(const std::string& kind, int64_t step, int64_t epoch, const Values& values) {
  nlohmann::ordered_json line = {{"kind", kind}, {"step", step}, {"epoch", epoch}};
  for (const auto& [name, value] : values) {
    line[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
    events_.scalar(kind + "/" + name, step, value);
  }
  const std::string text = line.dump() + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(fd_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno("cannot write", path_, errno);
    done += static_cast<size_t>(wrote);
  }
  bytes_ += text.size();
}

}  // namespace fovea::train
