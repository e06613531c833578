#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

struct zip;

namespace fovea::exports {

/// A zip file being read. Checksums are checked, which torch's own reader does not do.
class ZipArchive {
 public:
  /// Throws Error naming the file for what is no whole zip file.
  explicit ZipArchive(const std::filesystem::path& path);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  /// Its entries and their sizes in bytes.
  const std::map<std::string, uint64_t>& entries() const { return entries_; }
  /// The content of an entry. Throws Error naming file and entry where it is missing, is not of size() bytes, or does
  /// not have its checksum.
  void read(const std::string& entry, void* bytes, uint64_t size) const;
  std::string read(const std::string& entry, uint64_t max_size) const;

 private:
  std::filesystem::path path_;
  zip* zip_ = nullptr;
  std::map<std::string, uint64_t> entries_;
};

}  // namespace fovea::exports
