#include "fovea/train/manifest.h"

#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/json.h"
#include "fovea/core/utf8.h"
#include "fovea/data/text.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kManifestFormat = 1;
constexpr uint64_t kMaxManifestBytes = 1 << 20;

uint32_t crc32_of(std::string_view bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t crc32_of(const InputFile& file) {
  std::string block(std::min<uint64_t>(file.size(), uint64_t{1} << 20), '\0');
  uLong crc = 0;
  for (uint64_t at = 0; at < file.size();) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(block.size(), file.size() - at));
    file.read(at, block.data(), size);
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(block.data()), size);
    at += size;
  }
  return static_cast<uint32_t>(crc);
}

std::string hex(uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

/// nlohmann-json would convert 1e300 to an integer too.
uint64_t unsigned_at(const nlohmann::json& object, const char* key, const std::string& what) {
  const nlohmann::json& value = object.at(key);
  if (!value.is_number_unsigned()) {
    fail_usage("{}: expected a number of at least 0 for '{}', found {}", what, key, value.dump());
  }
  return value.get<uint64_t>();
}

/// The one text that stands for this manifest.
std::string render(const Manifest& manifest) {
  nlohmann::json files = nlohmann::json::array();
  for (const Manifest::File& file : manifest.files) {
    files.push_back({{"name", file.name}, {"size", file.size}, {"crc32", hex(file.crc32)}});
  }
  nlohmann::json root = {{"format", kManifestFormat}, {"step", manifest.step}, {"files", std::move(files)}};
  root["crc32"] = hex(crc32_of(root.dump()));
  return root.dump(1) + "\n";
}

/// The names in the directory but for the manifest, sorted.
std::vector<std::string> file_names(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == kManifestName) continue;
    if (!fs::is_regular_file(it->symlink_status())) {
      fail_usage("{}: expected only files in a checkpoint, found something else", it->path().string());
    }
    names.push_back(name);
  }
  if (error) fail_errno("cannot list", dir, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Manifest describe_directory(const fs::path& dir, int64_t step) {
  Manifest manifest;
  manifest.step = step;
  for (const std::string& name : file_names(dir)) {
    if (!is_utf8(name)) fail("{}: expected a name in UTF-8", (dir / name).string());
    const InputFile file(dir / name);
    manifest.files.push_back({name, file.size(), crc32_of(file)});
  }
  return manifest;
}

void write_manifest(const fs::path& dir, const Manifest& manifest) {
  write_file(dir / kManifestName, render(manifest));
}

Manifest parse_manifest(const std::string& text, const std::string& what) {
  const nlohmann::json root = parse_json(text, what);
  Manifest manifest;
  try {
    const uint64_t format = unsigned_at(root, "format", what);
    if (format != kManifestFormat) {
      fail_usage("{}: expected a manifest of format {}, found {}", what, kManifestFormat, format);
    }
    manifest.step = static_cast<int64_t>(unsigned_at(root, "step", what));
    for (const nlohmann::json& file : root.at("files")) {
      const std::string crc = file.at("crc32").get<std::string>();
      manifest.files.push_back({file.at("name").get<std::string>(), unsigned_at(file, "size", what),
                                static_cast<uint32_t>(std::strtoul(crc.c_str(), nullptr, 16))});
    }
  } catch (const nlohmann::json::exception& error) {
    fail_usage("{}: expected a manifest: {}", what, error.what());
  }
  // Comparing with the one possible text also finds what parsing forgives, such as another letter
  // in a space's place.
  const std::string expected = render(manifest);
  if (text != expected) {
    fail_usage("{}: damaged: its checksum does not match (expected {} of CRC-32 {}, found {} of {})", what,
               counted(expected.size(), "byte"), hex(crc32_of(expected)), text.size(), hex(crc32_of(text)));
  }
  return manifest;
}

Manifest read_manifest(const fs::path& dir) {
  const fs::path path = dir / kManifestName;
  return parse_manifest(read_file(path, kMaxManifestBytes), path.string());
}

void verify_directory(const fs::path& dir, const Manifest& manifest) {
  std::vector<std::string> found = file_names(dir);
  for (const Manifest::File& expected : manifest.files) {
    const fs::path path = dir / expected.name;
    const auto it = std::find(found.begin(), found.end(), expected.name);
    if (it == found.end())
      fail_usage("{}: expected a file of {}, it is missing", path.string(), counted(expected.size, "byte"));
    found.erase(it);
    const InputFile file(path);
    if (file.size() != expected.size) {
      fail_usage("{}: expected {}, found {}", path.string(), counted(expected.size, "byte"), file.size());
    }
    const uint32_t crc = crc32_of(file);
    if (crc != expected.crc32) {
      fail_usage("{}: damaged: expected CRC-32 {}, found {}", path.string(), hex(expected.crc32), hex(crc));
    }
  }
  if (!found.empty()) fail_usage("{}: not one of this checkpoint's files", (dir / found.front()).string());
}

}  // namespace fovea::train
