#include "fovea/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "fovea/core/counted.h"

namespace fovea {
namespace fs = std::filesystem;

void fail_errno(std::string_view doing, const fs::path& path, int error_number, ErrorKind kind) {
  // std::generic_category() rather than strerror(): thread-safe.
  throw Error(fmt::format("{} {}: {}", doing, path.string(), std::generic_category().message(error_number)), kind);
}

OutputFile::OutputFile(fs::path path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::kCreateNew ? O_EXCL : O_TRUNC);
  fd_ = ::open(path_.c_str(), flags, 0666);
  if (fd_ < 0) fail_errno("cannot create", path_, errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(const void* bytes, size_t size) {
  constexpr size_t kMaxCall = size_t{1} << 30;  // Linux transfers at most 2 GiB a call
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t done = ::write(fd_, at, size < kMaxCall ? size : kMaxCall);
    if (done < 0) {
      if (errno == EINTR) continue;
      fail_errno("cannot write", path_, errno);
    }
    at += done;
    size -= static_cast<size_t>(done);
  }
}

void OutputFile::sync() {
  if (::fsync(fd_) != 0) fail_errno("cannot fsync", path_, errno);
}

void OutputFile::close() {
  sync();
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail_errno("cannot close", path_, errno);
}

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  struct stat status {};
  // Looked at before opening: opening a FIFO would wait for a writer.
  if (::stat(path_.c_str(), &status) != 0) fail_errno("cannot open", path_, errno, ErrorKind::kUsage);
  if (S_ISDIR(status.st_mode)) fail_usage("cannot open {}: expected a file, found a directory", path_.string());
  if (!S_ISREG(status.st_mode)) fail_usage("cannot open {}: expected a regular file", path_.string());
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail_errno("cannot open", path_, errno, ErrorKind::kUsage);
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read(uint64_t offset, void* bytes, size_t size) const {
  char* at = static_cast<char*>(bytes);
  const uint64_t end = offset + size;
  while (size > 0) {
    const ssize_t done = ::pread(fd_, at, size, static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      fail_errno("cannot read", path_, errno, ErrorKind::kUsage);
    }
    if (done == 0) fail_usage("{}: expected {}, the file ends after {}", path_.string(), counted(end, "byte"), offset);
    at += done;
    offset += static_cast<uint64_t>(done);
    size -= static_cast<size_t>(done);
  }
}

std::string read_file(const fs::path& path, uint64_t max_size) {
  const InputFile file(path);
  if (file.size() > max_size) {
    fail_usage("{}: expected at most {} bytes, found {}", path.string(), max_size, file.size());
  }
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

void write_file(const fs::path& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.close();
}

void replace_file(const fs::path& path, std::string_view bytes) {
  const fs::path aside = path.parent_path() / ("." + path.filename().string() + ".partial");
  try {
    write_file(aside, bytes);
    if (::rename(aside.c_str(), path.c_str()) != 0) fail_errno("cannot replace", path, errno);
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  sync_path(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void sync_path(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno("cannot open", path, errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // EINVAL: file systems that cannot fsync a directory say so; there is nothing more to do there.
  if (error != 0 && error != EINVAL) fail_errno("cannot fsync", path, error);
}

}  // namespace fovea
