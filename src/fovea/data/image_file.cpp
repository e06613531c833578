#include "fovea/data/image_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

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

/// What is seen of an image with alpha (its last channel) on paper of one gray. (c a + paper (255 - a)) / 255, rounded.
std::vector<uint8_t> laid_on(const RawImage& image, uint32_t paper) {
  const auto colours = static_cast<size_t>(image.channels - 1);
  std::vector<uint8_t> pixels;
  pixels.reserve(image.pixels.size() / (colours + 1) * colours);
  for (size_t at = 0; at < image.pixels.size(); at += colours + 1) {
    const uint32_t alpha = image.pixels[at + colours];
    for (size_t c = 0; c < colours; ++c) {
      const uint32_t colour = image.pixels[at + c];
      pixels.push_back(static_cast<uint8_t>((colour * alpha + paper * (255 - alpha) + 127) / 255));
    }
  }
  return pixels;
}

/// Lays an image with alpha on white; on black where nothing would be seen on white.
void drop_alpha(RawImage& image) {
  if (image.channels != 2 && image.channels != 4) return;
  std::vector<uint8_t> seen = laid_on(image, 255);
  if (std::all_of(seen.begin(), seen.end(), [](uint8_t value) { return value == 255; })) seen = laid_on(image, 0);
  image.pixels = std::move(seen);
  --image.channels;
}

/// (channels, height, width) of the pixels that an EXIF orientation belongs to, upright.
at::Tensor upright(const at::Tensor& image, int orientation) {
  switch (orientation) {
    case 2:
      return image.flip({2});
    case 3:
      return image.flip({1, 2});
    case 4:
      return image.flip({1});
    case 5:
      return image.transpose(1, 2);
    case 6:
      return image.transpose(1, 2).flip({2});
    case 7:
      return image.transpose(1, 2).flip({1, 2});
    case 8:
      return image.transpose(1, 2).flip({1});
    default:
      return image;
  }
}

}  // namespace

at::Tensor decode_image(std::string_view bytes, const std::string& name, int64_t channels, int64_t max_pixels) {
  if (channels != 1 && channels != 3) fail_usage("an image is read with 1 or 3 channels, not with {}", channels);
  RawImage raw;
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) {
    raw = decode_png(bytes, name, max_pixels);
  } else if (bytes.starts_with("\xFF\xD8\xFF")) {
    raw = decode_jpeg(bytes, name, max_pixels);
  } else {
    fail_usage("{}: expected a PNG or JPEG image, found {}", name, describe_content(bytes));
  }

  drop_alpha(raw);
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
  return upright(image, raw.orientation).contiguous();
}

at::Tensor read_image(const std::filesystem::path& path, int64_t channels, int64_t max_pixels) {
  return decode_image(read_input(path, kMaxFileBytes), path.string(), channels, max_pixels);
}

}  // namespace fovea::data
