#include "fovea/core/gzip.h"

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

namespace fovea {
namespace fs = std::filesystem;
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_too_large(const std::string& name, size_t max_bytes) {
  fail_usage("{}: expected at most {} bytes of data, found more", name, max_bytes);
}

// Until a pipe has data or its writer has come and gone. A writer that takes its time is waited for; none at all, not.
void wait_for_writer(int fd, const std::string& name, std::string& already_read) {
  constexpr int kMilliseconds = 10'000;
  pollfd poll_for{.fd = fd, .events = POLLIN, .revents = 0};
  int found = 0;
  do {
    found = ::poll(&poll_for, 1, kMilliseconds);
  } while (found < 0 && errno == EINTR);
  if (found != 0) return;
  // Without a writer reading gives the end at once, with one that is slow EAGAIN. A byte may have come just now.
  std::array<char, 1> byte{};
  const ssize_t count = ::read(fd, byte.data(), byte.size());
  if (count == 0) fail_usage("cannot read {}: nobody writes to this pipe", name);
  if (count > 0) already_read.assign(byte.data(), 1);
}

void refuse_foreign(std::string_view data, const std::string& name, std::string_view where) {
  const std::string_view found = foreign_format(data);
  if (found.empty()) return;
  const std::string_view hint = found == "an HTML page"
                                    ? "probably the answer of a server that did not deliver the file: fetch it again"
                                    : "unpack or convert it first";
  fail_usage("{}: expected plain or gzip data, found {}{}; {}", name, found, where, hint);
}

/// zlib's inflater, set to gzip framing.
class Inflater {
 public:
  explicit Inflater(std::string_view packed) : packed_(packed) {
    constexpr int kGzipFraming = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipFraming) != Z_OK) fail("zlib cannot be set up: out of memory");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  size_t offset() const { return offset_; }
  std::string_view rest() const { return packed_.substr(offset_); }
  std::string_view message() const { return stream_.msg != nullptr ? stream_.msg : "invalid data"; }
  void next_member() { inflateReset(&stream_); }

  /// Appends the next block to `out`; returns zlib's status.
  int inflate_block(std::string& out, size_t max_bytes, const std::string& name) {
    // zlib counts in 32 bits.
    const size_t given = std::min(packed_.size() - offset_, size_t{1} << 30);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed_.data() + offset_));
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_out = static_cast<uInt>(block_.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    offset_ += given - stream_.avail_in;
    const size_t made = block_.size() - stream_.avail_out;
    if (made > max_bytes - out.size()) fail_too_large(name, max_bytes);
    out.append(block_.data(), made);
    return status;
  }

 private:
  std::string_view packed_;
  size_t offset_ = 0;
  z_stream stream_{};
  std::vector<char> block_ = std::vector<char>(size_t{1} << 18);
};

}  // namespace

std::string read_input(const fs::path& path, size_t max_bytes) {
  const std::string name = path.string();
  const auto message = [](int error_number) { return std::generic_category().message(error_number); };
  // Opening a named pipe that nobody writes to would wait for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const bool was_pipe = name.starts_with("/dev/fd/") || name.starts_with("/proc/");
    fail_usage("cannot read {}: {}{}", name, message(errno),
               was_pipe ? " (what came through a pipe once has to be given again, as a file)" : "");
  }
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail_usage("cannot read {}: {}", name, message(errno));
  if (S_ISDIR(status.st_mode)) fail_usage("cannot read {}: expected a file, found a directory", name);

  if (::isatty(file.fd) == 1) fail_usage("cannot read {}: expected a file, found a terminal", name);
  std::string bytes;
  if (S_ISFIFO(status.st_mode)) wait_for_writer(file.fd, name, bytes);
  if (const int flags = ::fcntl(file.fd, F_GETFL); flags >= 0) ::fcntl(file.fd, F_SETFL, flags & ~O_NONBLOCK);

  // The size is a hint only: pipes have none, and files grow.
  const auto size_hint = static_cast<uint64_t>(std::max<off_t>(status.st_size, 0));
  if (S_ISREG(status.st_mode) && size_hint > max_bytes) fail_too_large(name, max_bytes);
  if (S_ISREG(status.st_mode)) bytes.reserve(size_hint);
  std::vector<char> block(size_t{1} << 18);
  while (true) {
    const ssize_t count = ::read(file.fd, block.data(), block.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_usage("cannot read {}: {}", name, message(errno));
    }
    if (count == 0) return bytes;
    if (static_cast<size_t>(count) > max_bytes - bytes.size()) fail_too_large(name, max_bytes);
    bytes.append(block.data(), static_cast<size_t>(count));
  }
}

bool is_gzip(std::string_view data) {
  return data.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view packed, const std::string& name, size_t max_bytes,
                   const std::function<void(std::string_view)>& watch) {
  if (!is_gzip(packed))
    fail_usage("{}: expected gzip data (1f 8b), found {} of something else", name, counted(packed.size(), "byte"));
  std::string data;
  Inflater inflater(packed);
  while (true) {
    int status = Z_OK;
    while (status == Z_OK) {
      status = inflater.inflate_block(data, max_bytes, name);
      if (watch) watch(data);
    }
    if (status == Z_BUF_ERROR) {
      fail_usage(
          "{}: the gzip data is cut off: it ends after {} ({} unpacked) in the middle of a "
          "member",
          name, counted(packed.size(), "byte"), data.size());
    }
    if (status != Z_STREAM_END) {
      // zlib's own words for a wrong CRC-32 are "incorrect data check".
      const bool is_crc = inflater.message() == "incorrect data check";
      fail_usage("{}: the gzip data is damaged near byte {}: {}", name, inflater.offset(),
                 is_crc ? "the CRC-32 does not match" : inflater.message());
    }
    const std::string_view rest = inflater.rest();
    if (rest.find_first_not_of('\0') == std::string_view::npos) return data;
    if (!is_gzip(rest)) {
      fail_usage(
          "{}: expected another gzip member or the end at byte {}, found {} of something "
          "else",
          name, inflater.offset(), counted(rest.size(), "byte"));
    }
    inflater.next_member();
  }
}

std::string read_maybe_gzip(const fs::path& path, size_t max_bytes) {
  return unpack_input(read_input(path, max_bytes), path.string(), max_bytes);
}

std::string unpack_input(std::string data, const std::string& name, size_t max_bytes) {
  refuse_foreign(data, name, "");
  if (!is_gzip(data)) return data;
  data = gunzip(data, name, max_bytes);
  refuse_foreign(data, name, " inside the gzip data");
  if (is_gzip(data)) fail_usage("{}: expected data packed once, found gzip data inside the gzip data", name);
  return data;
}

uint32_t crc32(std::string_view bytes, uint32_t previous) {
  return static_cast<uint32_t>(
      ::crc32_z(previous, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

}  // namespace fovea
