// Whatever bytes come, decoding an image gives one of its size or throws fovea::Error; any size resizes to any other;
// an orientation is 1 to 8.
#include <ATen/ATen.h>

#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/exif.h"
#include "fovea/data/image_file.h"
#include "fovea/tasks/classification/images/image_assets.h"

using namespace fovea;

namespace {

constexpr int64_t kMaxPixels = 1 << 16;  // damage does not need size, and time does

void run(std::string_view bytes, int64_t channels, int64_t side) {
  const at::Tensor image = data::decode_image(bytes, "image", channels, kMaxPixels);
  if (image.numel() != channels * image.size(1) * image.size(2) || image.size(1) * image.size(2) > kMaxPixels) {
    std::abort();
  }
  const auto count = static_cast<size_t>(channels);
  const classification::ImageAssets assets(
      {channels, side, 17, 1}, {"x"},
      {.mean = std::vector<double>(count, 0.5), .stddev = std::vector<double>(count, 0.5)});
  if (!at::isfinite(assets.preprocess(image)).all().item<bool>()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    run(bytes, data[0] % 2 == 0 ? 1 : 3, 1 + data[0] / 2);
  } catch (const Error&) {
  }
  if (const int orientation = data::exif_orientation(bytes); orientation < 1 || orientation > 8) std::abort();
  try {
    classification::ImageAssets::parse(bytes, "images.json");
  } catch (const Error&) {
  }
  return 0;
}
