#include "fovea/data/image_file.h"

#include <ATen/ATen.h>

#include "fovea/core/content.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/jpeg_reader.h"
#include "fovea/data/png_reader.h"

namespace fovea::data {
namespace {

// No camera's file is larger, and no image within the limit of pixels needs more.
constexpr size_t kMaxFileBytes = size_t{512} << 20;

uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

}  // namespace

at::Tensor decode_image(std::string_view bytes, const std::string& name, int64_t channels, int64_t max_pixels) {
  if (channels != 1 && channels != 3) fail("an image is read with 1 or 3 channels, not with {}", channels);
  RawImage raw;
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) {
    raw = decode_png(bytes, name, max_pixels);
  } else if (bytes.starts_with("\xFF\xD8\xFF")) {
    raw = decode_jpeg(bytes, name, max_pixels);
  } else {
    fail_usage("{}: expected a PNG or JPEG image, found {}", name, describe_content(bytes));
  }

  at::Tensor image = at::empty({channels, raw.height, raw.width}, at::kByte);
  uint8_t* out = image.data_ptr<uint8_t>();
  const uint8_t* in = raw.pixels.data();
  const int64_t pixels = raw.height * raw.width;
  for (int64_t i = 0; i < pixels; ++i) {
    if (channels == 1) {
      out[i] = raw.channels == 1 ? in[i] : luma(in + 3 * i);
    } else {
      for (int64_t c = 0; c < 3; ++c) out[c * pixels + i] = raw.channels == 1 ? in[i] : in[3 * i + c];
    }
  }
  return image;
}

at::Tensor read_image(const std::filesystem::path& path, int64_t channels, int64_t max_pixels) {
  return decode_image(read_input(path, kMaxFileBytes), path.string(), channels, max_pixels);
}

}  // namespace fovea::data
