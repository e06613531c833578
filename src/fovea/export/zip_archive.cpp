#include "fovea/export/zip_archive.h"

#include <zip.h>

#include <memory>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::exports {
namespace {

std::string open_error(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path) : path_(path) {
  const InputFile readable(path);  // so that a missing file is said as everywhere
  int code = 0;
  zip_ = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (zip_ == nullptr) fail_usage("{}: no whole zip file: {}", path.string(), open_error(code));
  const zip_int64_t count = zip_get_num_entries(zip_, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip_, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &stat) == 0) entries_[stat.name] = stat.size;
  }
}

ZipArchive::~ZipArchive() {
  if (zip_ != nullptr) zip_discard(zip_);
}

void ZipArchive::read(const std::string& entry, void* bytes, uint64_t size) const {
  const auto found = entries_.find(entry);
  if (found == entries_.end()) fail_usage("{}: the entry '{}' is missing", path_.string(), entry);
  if (found->second != size) {
    fail_usage("{}: the entry '{}': expected {}, found {}", path_.string(), entry, counted(size, "byte"),
               found->second);
  }
  const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(zip_fopen(zip_, entry.c_str(), ZIP_FL_ENC_RAW),
                                                                &zip_fclose);
  if (file == nullptr) fail_usage("{}: the entry '{}': {}", path_.string(), entry, zip_strerror(zip_));
  auto* out = static_cast<char*>(bytes);
  uint64_t done = 0;
  while (done < size) {
    const zip_int64_t read = zip_fread(file.get(), out + done, size - done);
    if (read <= 0)
      fail_usage("{}: the entry '{}' is damaged: {}", path_.string(), entry, zip_file_strerror(file.get()));
    done += static_cast<uint64_t>(read);
  }
  // The checksum is looked at where the end is met.
  char beyond = 0;
  if (zip_fread(file.get(), &beyond, 1) != 0) {
    fail_usage("{}: the entry '{}' is damaged: {}", path_.string(), entry, zip_file_strerror(file.get()));
  }
}

std::string ZipArchive::read(const std::string& entry, uint64_t max_size) const {
  const auto found = entries_.find(entry);
  const uint64_t size = found == entries_.end() ? 0 : found->second;
  if (size > max_size)
    fail_usage("{}: the entry '{}': expected {} bytes at most, found {}", path_.string(), entry, max_size, size);
  std::string content(size, '\0');
  read(entry, content.data(), size);
  return content;
}

}  // namespace fovea::exports
