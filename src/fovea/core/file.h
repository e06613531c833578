#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "fovea/core/error.h"

namespace fovea {

/// Throws "<doing> <path>: <text of error_number>", e.g. "cannot write runs/a/x: No space left on
/// device".
[[noreturn]] void fail_errno(std::string_view doing, const std::filesystem::path& path, int error_number,
                             ErrorKind kind = ErrorKind::kRun);

/// A file being written through the kernel's calls, so that a full disk or a refused fsync is an
/// Error with the path and the kernel's text, never a silently short file. Every member throws
/// fovea::Error.
class OutputFile {
 public:
  enum class Mode { kTruncate, kCreateNew };

  explicit OutputFile(std::filesystem::path path, Mode mode = Mode::kTruncate);
  ~OutputFile();  // closes without fsync and without an error; call close()
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* bytes, size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void sync();   // fsync
  void close();  // fsync and close

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// A regular file being read at given offsets.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);  // Error unless a readable regular file
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }  // bytes, when it was opened

  /// Reads exactly `size` bytes at `offset`; Error where the file ends earlier.
  void read(uint64_t offset, void* bytes, size_t size) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// The whole file. `max_size` bounds the memory taken: a larger file is an Error.
std::string read_file(const std::filesystem::path& path, uint64_t max_size = UINT64_MAX);

/// Writes the whole file, fsynced.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Replaces the file as a whole: written beside it as ".<name>.partial", fsynced, renamed,
/// directory fsynced. Whoever reads the path, also after a crash, finds the old content or the new
/// one.
void replace_file(const std::filesystem::path& path, std::string_view bytes);

/// fsync of a file or a directory.
void sync_path(const std::filesystem::path& path);

}  // namespace fovea
