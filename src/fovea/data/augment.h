#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/rand_augment.h"

namespace fovea::data {

/// `data.augment`: what is changed at random in images that are trained on.
struct AugmentConfig : config::Section {
  int64_t crop_padding = 0;
  bool flip = false;
  double erasing = 0.0;
  double mixup = 0.0, cutmix = 0.0;
  RandAugment rand_augment;
  int64_t repeats = 1;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

/// A rectangle of pixels.
struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// What is done to one image: it is moved (a crop of the image padded with black), then mirrored, then changed by a few
/// operations (RandAugment), then, as the model's input, erased in one rectangle.
struct Augmentation {
  int64_t down = 0, right = 0;  // the crop's place: output (y, x) shows the image's (y + down, x + right)
  bool flip = false;            // left becomes right
  std::vector<ImageOperation> operations;
  Box erased;  // of no pixels: nothing
};

/// The draws for one example, a pure function of (seed, epoch, example) and the setting; whether one kind of change is
/// on does not move the draws of another. As torchvision draws them:
///
///   - the crop is uniform in the image padded by crop_padding on each side (RandomCrop);
///   - mirrored with probability 1/2 (RandomHorizontalFlip);
///   - with probability `erasing` a rectangle of 2 to 33 % of the area with a ratio of height to width of 0.3 to 3.3 is
///     erased, if one of ten tries lies within the image (RandomErasing; Zhong et al. 2020).
Augmentation draw_augmentation(const AugmentConfig& config, int64_t height, int64_t width, uint64_t seed, int64_t epoch,
                               int64_t example);

/// Moves and mirrors an image (channels, height, width); what was outside is 0. `in` and `out` do not overlap.
void crop_and_flip(const uint8_t* in, uint8_t* out, int64_t channels, int64_t height, int64_t width,
                   const Augmentation& augmentation);

/// Sets the box to 0 in all channels of an image (channels, height, width).
void erase(float* image, int64_t channels, int64_t height, int64_t width, const Box& box);

/// Copies the box in all channels of an image (channels, height, width) to the same place of another.
void copy_box(const float* from, float* to, int64_t channels, int64_t height, int64_t width, const Box& box);

/// How the images of a batch are mixed. With mixup (Zhang et al. 2018) image i becomes share * image i + (1 - share) *
/// image partners[i]; with CutMix (Yun et al. 2019) it gets a rectangle of image partners[i], and share is what is left
/// of its own area. As in the papers' own programs, one share for the whole batch, from Beta(alpha, alpha).
struct Mix {
  std::vector<int64_t> partners;  // a permutation of 0 .. examples - 1
  float share = 1.0f;
  std::optional<Box> box;  // of CutMix
};

/// A pure function of (config, height, width, seed, epoch, examples). Where mixup and CutMix are both on, each has half
/// of the batches.
Mix draw_mix(const AugmentConfig& config, int64_t height, int64_t width, uint64_t seed, int64_t epoch,
             const std::vector<int64_t>& examples);

}  // namespace fovea::data
