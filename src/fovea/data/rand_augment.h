#pragma once

#include <cstdint>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/enum_names.h"

namespace fovea::data {

class Draws;

/// `data.augment.rand_augment` (Cubuk et al., "RandAugment", 2019).
struct RandAugment : config::Section {
  int64_t operations = 0;  // of each image; 0: none
  int64_t magnitude = 9;   // of 30
  void fields(config::Fields& f) override;
};

/// The operations, as torchvision's RandAugment has them.
enum class ImageOperationKind {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize
};
constexpr int kImageOperations = 14;

struct ImageOperation {
  ImageOperationKind kind = ImageOperationKind::kIdentity;
  /// Shears: the tangent. Translations: the share of the side. Rotate: degrees. Brightness, colour, contrast and
  /// sharpness: what the factor 1 is moved by. Posterize: the bits that stay. Solarize: what is inverted, from there
  /// on.
  double value = 0.0;
};

/// Uniform in the operations, each with the strength of the setting; what has a direction goes either way with
/// probability 1/2.
std::vector<ImageOperation> draw_operations(const RandAugment& config, Draws draws);

/// Changes an image (channels, height, width) of 1 or 3 channels. Pixels from outside are 0; moved pixels are the
/// nearest. Shears and rotations are about the centre.
void apply(const ImageOperation& operation, uint8_t* image, int64_t channels, int64_t height, int64_t width);

}  // namespace fovea::data
