// PNG files for tests.
#pragma once

#include <png.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <vector>

/// A colour image of random pixels; equal seeds make equal images.
inline void write_png(const std::filesystem::path& path, int64_t height, int64_t width, uint64_t seed) {
  std::vector<uint8_t> pixels(static_cast<size_t>(3 * height * width));
  uint64_t random = 88172645463325252ull + seed * 0x9E3779B97F4A7C15ull;
  for (auto& pixel : pixels) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    pixel = static_cast<uint8_t>(random >> 20);
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  std::filesystem::create_directories(path.parent_path());
  if (png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error("cannot write " + path.string());
  }
}
