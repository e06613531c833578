#include "fovea/data/png_writer.h"

#include <png.h>

#include "fovea/core/error.h"

namespace fovea::data {

std::string encode_png(int64_t channels, int64_t height, int64_t width, const std::vector<uint8_t>& pixels) {
  const bool fits = (channels == 1 || channels == 3) && height > 0 && width > 0 &&
                    pixels.size() == static_cast<size_t>(channels * height * width);
  if (!fits) fail("PNG: {} pixels do not make {} x {} x {}", pixels.size(), channels, height, width);
  std::vector<uint8_t> interleaved(pixels.size());  // (height, width, channels)
  const auto plane = static_cast<size_t>(height * width), count = static_cast<size_t>(channels);
  for (size_t c = 0; c < count; ++c) {
    for (size_t i = 0; i < plane; ++i) interleaved[i * count + c] = pixels[c * plane + i];
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, interleaved.data(), 0, nullptr) == 0) {
    fail("PNG: {}", static_cast<const char*>(image.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace fovea::data
