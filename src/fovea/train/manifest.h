#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::train {

/// What a checkpoint directory holds, kept in its manifest.json: every file with its size and
/// CRC-32, and a CRC-32 of the manifest itself, so that no byte of a checkpoint can change
/// unnoticed.
struct Manifest {
  struct File {
    std::string name;
    uint64_t size = 0;   // bytes
    uint32_t crc32 = 0;  // as zlib's crc32()
  };
  int64_t step = 0;
  std::vector<File> files;  // by name
};

inline constexpr const char* kManifestName = "manifest.json";

/// Describes the files that are in `dir` now. Error: anything else than regular files in it.
Manifest describe_directory(const std::filesystem::path& dir, int64_t step);

/// Writes dir/manifest.json and fsyncs it.
void write_manifest(const std::filesystem::path& dir, const Manifest& manifest);

/// Reads dir/manifest.json; Error unless it is there, byte for byte as written.
Manifest read_manifest(const std::filesystem::path& dir);

/// The manifest of this text; `what` names it in errors.
Manifest parse_manifest(const std::string& text, const std::string& what);

/// Error unless `dir` holds exactly the files of the manifest, with these sizes and checksums.
/// Names the file, what was expected and what was found.
void verify_directory(const std::filesystem::path& dir, const Manifest& manifest);

}  // namespace fovea::train
