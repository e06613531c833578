#include "fovea/data/image_cache.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/hash.h"
#include "fovea/core/progress.h"
#include "fovea/data/image_file.h"
#include "fovea/data/resize.h"
#include "fovea/data/threads.h"

namespace fovea::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kCacheMagic = "fovea images 1\n";
constexpr size_t kPixelsAlign = 64;
constexpr size_t kMaxImageBytes = size_t{512} << 20;  // of one file

struct CacheHeader {
  char magic[16] = {};
  uint64_t fingerprint = 0;  // of what was asked for and of the files
  int64_t count = 0, channels = 0, height = 0, width = 0;
  uint64_t checksum = 0;  // of the fields above and of the entries
};

struct CacheEntry {
  uint64_t hash = 0;
  uint64_t is_damaged = 0;
};

/// Memory that is a file's, or nobody's: it is given back at the end.
class Mapping {
 public:
  Mapping(size_t size, int fd, bool writes) : size_(size) {
    const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* at = ::mmap(nullptr, size, writes ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0);
    if (at == MAP_FAILED) fail("cannot map {} into memory: {}", counted(size, "byte"), std::strerror(errno));
    data_ = static_cast<uint8_t*>(at);
  }
  ~Mapping() { ::munmap(data_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_;
};

/// An open file that is closed at the end; a lock on it ends then too.
struct OpenFile {
  int fd = -1;
  OpenFile(const fs::path& path, int flags) : fd(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
};

/// Where everything stands in a cache.
struct CacheLayout {
  size_t count, image;  // image: bytes of one
  explicit CacheLayout(const CacheHeader& h)
      : count(static_cast<size_t>(h.count)), image(static_cast<size_t>(h.channels * h.height * h.width)) {}
  size_t pixels() const {
    const size_t end = sizeof(CacheHeader) + count * sizeof(CacheEntry);
    return (end + kPixelsAlign - 1) / kPixelsAlign * kPixelsAlign;
  }
  size_t size() const { return pixels() + count * image; }
};

CacheEntry* entries_of(const Mapping& mapping) {
  return reinterpret_cast<CacheEntry*>(mapping.data() + sizeof(CacheHeader));
}

uint64_t checksum_of(const Mapping& mapping, size_t count) {
  Fnv1a sum;
  sum.add(hash_words(mapping.data(), offsetof(CacheHeader, checksum)));
  sum.add(hash_words(mapping.data() + sizeof(CacheHeader), count * sizeof(CacheEntry)));
  return sum.value;
}

// A cache holds what the program makes of the files: names, sizes and times say whether they are still the same.
uint64_t fingerprint_of(const ImageCacheRequest& request) {
  Fnv1a hash;
  hash.add(static_cast<uint64_t>(request.channels));
  hash.add(request.size ? static_cast<uint64_t>(request.size->first) : 0);
  hash.add(request.size ? static_cast<uint64_t>(request.size->second) : 0);
  for (const auto& file : request.files) {
    struct stat status {};
    hash.add_text(file.native());
    if (::stat(file.c_str(), &status) != 0) continue;
    hash.add(static_cast<uint64_t>(status.st_size));
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_sec));
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_nsec));
  }
  return hash.value;
}

// photos-1b2c3d4e.images: one for each place, size and number of channels.
fs::path cache_path(const ImageCacheRequest& request) {
  Fnv1a hash;
  hash.add_text(request.name);
  hash.add(static_cast<uint64_t>(request.channels));
  hash.add(request.size ? static_cast<uint64_t>(request.size->first) : 0);
  hash.add(request.size ? static_cast<uint64_t>(request.size->second) : 0);
  std::string stem = fs::path(request.name).filename().string().substr(0, 40);
  for (char& c : stem) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '_';
  }
  return request.folder / fmt::format("{}-{:016x}.images", stem, hash.value);
}

at::Tensor read_one(const fs::path& file, int64_t channels) {
  return decode_image(read_file(file, kMaxImageBytes), file.string(), channels);
}

// Height and width of the images: as asked, or as the first file that can be read has them.
std::pair<int64_t, int64_t> size_of(const ImageCacheRequest& request) {
  if (request.size) return *request.size;
  std::string first;
  for (const auto& file : request.files) {
    try {
      const at::Tensor image = read_one(file, request.channels);
      return {image.size(1), image.size(2)};
    } catch (const Error& e) {
      if (first.empty()) first = e.what();
    }
  }
  fail_usage("none of {} can be read; the first: {}", counted(request.files.size(), "image"), first);
}

/// Fills a mapping with the pixels of the files.
class CacheFiller {
 public:
  CacheFiller(const ImageCacheRequest& request, const CacheHeader& header, Mapping& mapping)
      : request_(request), header_(header), layout_(header), mapping_(mapping) {
    shown_.name = "reading images";
    shown_.total = header.count;
    shown_.rate_unit = "images/s";
  }

  void fill() {
    for_each_on_threads(layout_.count, [this](size_t i) { read(i); });
    progress_.finish();
    CacheHeader& header = *reinterpret_cast<CacheHeader*>(mapping_.data());
    header = header_;
    header.checksum = checksum_of(mapping_, layout_.count);
  }

 private:
  void read(size_t i) {
    uint8_t* out = mapping_.data() + layout_.pixels() + i * layout_.image;
    CacheEntry& entry = entries_of(mapping_)[i];
    try {
      const at::Tensor image = read_one(request_.files[i], header_.channels);
      if (image.size(1) == header_.height && image.size(2) == header_.width) {
        std::memcpy(out, image.const_data_ptr<uint8_t>(), layout_.image);
      } else {
        if (!request_.size) refuse_size(i, image);
        const Resizer resize(image.size(1), image.size(2), header_.height, header_.width);
        resize(image.const_data_ptr<uint8_t>(), out, header_.channels);
      }
    } catch (const MixedSizes& e) {
      throw Error(e.what(), ErrorKind::kUsage);
    } catch (const Error&) {
      std::memset(out, 0, layout_.image);
      entry.is_damaged = 1;
    }
    entry.hash = hash_words(out, layout_.image);
    show();
  }

  struct MixedSizes : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  [[noreturn]] void refuse_size(size_t i, const at::Tensor& image) const {
    throw MixedSizes(
        fmt::format("{}: is {} x {} pixels (height x width), images before it {} x {}; expected one size: say in "
                    "data.resize to which they are resized, as in data.resize=[{}, {}]",
                    request_.files[i].string(), image.size(1), image.size(2), header_.height, header_.width, 64, 64));
  }

  void show() {
    if (!progress_.is_terminal()) return;
    const std::lock_guard lock(mutex_);
    ++shown_.done;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    if (seconds > 0) shown_.rate = static_cast<double>(shown_.done) / seconds;
    if (seconds > 0) shown_.eta = static_cast<double>(shown_.total - shown_.done) / shown_.rate;
    progress_.update(shown_);
  }

  const ImageCacheRequest& request_;
  const CacheHeader& header_;
  const CacheLayout layout_;
  Mapping& mapping_;
  Progress progress_;
  ProgressState shown_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// The cache if it is of these files and whole; else nothing.
std::shared_ptr<Mapping> open_cache(const fs::path& path, uint64_t fingerprint) {
  const OpenFile file(path, O_RDONLY);
  struct stat status {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const auto size = static_cast<size_t>(status.st_size);
  CacheHeader header;
  if (size < sizeof(header) || ::pread(file.fd, &header, sizeof(header), 0) != sizeof(header)) return nullptr;
  if (std::string_view(header.magic) != kCacheMagic || header.fingerprint != fingerprint) return nullptr;
  const bool is_sane = header.count > 0 && header.count < int64_t{1} << 40 && header.height > 0 && header.width > 0 &&
                       header.height < 1 << 20 && header.width < 1 << 20 &&
                       (header.channels == 1 || header.channels == 3);
  if (!is_sane || CacheLayout(header).size() != size) return nullptr;
  auto mapping = std::make_shared<Mapping>(size, file.fd, /*writes=*/false);
  const CacheLayout layout(header);
  std::atomic<bool> is_whole = checksum_of(*mapping, layout.count) == header.checksum;
  if (is_whole) {
    for_each_on_threads(layout.count, [&](size_t i) {
      const uint8_t* pixels = mapping->data() + layout.pixels() + i * layout.image;
      if (hash_words(pixels, layout.image) != entries_of(*mapping)[i].hash) is_whole = false;
    });
  }
  if (!is_whole) spdlog::warn("{}: the cache is damaged; it is made anew", path.string());
  return is_whole ? mapping : nullptr;
}

CacheHeader header_for(const ImageCacheRequest& request, uint64_t fingerprint) {
  const auto [height, width] = size_of(request);
  CacheHeader header;
  kCacheMagic.copy(header.magic, kCacheMagic.size());
  header.fingerprint = fingerprint;
  header.count = static_cast<int64_t>(request.files.size());
  header.channels = request.channels;
  header.height = height;
  header.width = width;
  return header;
}

// A file of that size, all of it reserved on the disk: writing to memory that the disk has no room for would end the
// program. Nothing, and errno, where that cannot be.
std::shared_ptr<Mapping> reserve(const fs::path& path, size_t size) {
  const OpenFile file(path, O_RDWR | O_CREAT | O_TRUNC);
  if (file.fd < 0) return nullptr;
  if (const int error = ::posix_fallocate(file.fd, 0, static_cast<off_t>(size)); error != 0) {
    ::unlink(path.c_str());
    errno = error;
    return nullptr;
  }
  return std::make_shared<Mapping>(size, file.fd, /*writes=*/true);
}

CachedImages describe_cache(const ImageCacheRequest& request, const std::shared_ptr<Mapping>& mapping) {
  const CacheHeader& header = *reinterpret_cast<const CacheHeader*>(mapping->data());
  const CacheLayout layout(header);
  CachedImages images;
  images.pixels = at::from_blob(
      mapping->data() + layout.pixels(), {header.count, header.channels, header.height, header.width},
      [mapping](void*) {}, at::kByte);
  for (size_t i = 0; i < layout.count; ++i) {
    const CacheEntry& entry = entries_of(*mapping)[i];
    images.hashes.push_back(entry.hash);
    auto& damage = images.damage.emplace_back();
    if (entry.is_damaged == 0) continue;
    damage = request.files[i].string() + ": cannot be read";
    try {  // once more, for the reason
      read_one(request.files[i], request.channels);
    } catch (const Error& e) {
      damage = e.what();
    }
  }
  return images;
}

}  // namespace

fs::path default_image_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "fovea/images";
  if (home != nullptr && *home == '/') return fs::path(home) / ".cache/fovea/images";
  return fs::temp_directory_path() / "fovea-images";
}

CachedImages read_images_cached(const ImageCacheRequest& request) {
  if (request.files.empty()) fail_usage("{}: expected images, found none", request.name);
  const uint64_t fingerprint = fingerprint_of(request);
  const fs::path path = cache_path(request);
  const fs::path partial = path.parent_path() / ("." + path.filename().string() + ".partial");
  const auto note = [&](const Mapping& mapping, const char* how) {
    return fmt::format("{:.1f} MB in {}, {}", static_cast<double>(mapping.size()) / 1e6, path.string(), how);
  };
  const auto reuse = [&]() -> std::optional<CachedImages> {
    const auto mapping = open_cache(path, fingerprint);
    if (mapping == nullptr) return std::nullopt;
    CachedImages images = describe_cache(request, mapping);
    images.note = note(*mapping, "read again");
    return images;
  };
  if (auto images = reuse()) return std::move(*images);

  std::error_code error;
  fs::create_directories(request.folder, error);
  const OpenFile lock(path.string() + ".lock", O_RDWR | O_CREAT);
  if (lock.fd >= 0 && ::flock(lock.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    spdlog::info("{}: another program makes this cache; waiting for it", path.string());
    while (::flock(lock.fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (auto images = reuse()) return std::move(*images);
  }

  const CacheHeader header = header_for(request, fingerprint);
  const size_t size = CacheLayout(header).size();
  std::shared_ptr<Mapping> mapping = lock.fd < 0 ? nullptr : reserve(partial, size);
  const bool is_file = mapping != nullptr;
  if (!is_file) {
    spdlog::warn(
        "cannot write the cache {} ({}); {:.1f} MB of images are kept in memory; choose another folder with "
        "data.cache",
        path.string(), std::strerror(errno), static_cast<double>(size) / 1e6);
    mapping = std::make_shared<Mapping>(size, -1, /*writes=*/true);
  }
  try {
    CacheFiller(request, header, *mapping).fill();
    if (is_file && ::rename(partial.c_str(), path.c_str()) != 0) fail_errno("cannot replace", path, errno);
  } catch (...) {
    if (is_file) ::unlink(partial.c_str());
    throw;
  }
  CachedImages images = describe_cache(request, mapping);
  images.note =
      is_file ? note(*mapping, "made now") : fmt::format("none; {:.1f} MB in memory", static_cast<double>(size) / 1e6);
  return images;
}

}  // namespace fovea::data
