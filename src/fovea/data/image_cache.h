#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fovea::data {

/// Image files that are wanted as pixels of one size.
struct ImageCacheRequest {
  std::vector<std::filesystem::path> files;
  int64_t channels = 3;                             // 1 or 3
  std::optional<std::pair<int64_t, int64_t>> size;  // (height, width); nothing: that of the first file, and of all
  std::filesystem::path folder;                     // where the cache lies; made if it is not there
  std::string name;                                 // what the files are, such as their folder; names the cache
};

struct CachedImages {
  at::Tensor pixels;                // uint8 (files, channels, height, width); read only; zeros for a damaged file
  std::vector<uint64_t> hashes;     // (files), hash_words() of the pixels
  std::vector<std::string> damage;  // (files), why a file cannot be read; empty for all others
  std::string note;  // for people: "47.0 MB in /home/x/.cache/fovea/images/photos-1b2c.images, read again"
};

/// Decodes and resizes many files on at::get_num_threads() threads, as read_image() and Resizer do, into one file that
/// is mapped into memory: images need not fit into memory, and are decoded once. The cache is read again while names,
/// sizes and times of the files are what they were; else, and where it is damaged (every image has a checksum), it is
/// made anew in its place. Two programs that want one cache wait for each other. Where no cache can be written, the
/// images are kept in memory, with a warning.
///
/// Throws a usage Error where no file can be read; where `size` is nothing and two files differ in size, naming both.
CachedImages read_images_cached(const ImageCacheRequest& request);

/// fovea/images in $XDG_CACHE_HOME, or else in ~/.cache; in the directory of temporary files without a home.
std::filesystem::path default_image_cache();

}  // namespace fovea::data
