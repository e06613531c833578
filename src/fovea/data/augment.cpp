#include "fovea/data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "fovea/config/checker.h"
#include "fovea/data/draws.h"

namespace fovea::data {
namespace {

Box draw_box(Draws draws, int64_t height, int64_t width, double probability) {
  constexpr int kTries = 10;
  constexpr double kLeastArea = 0.02, kMostArea = 0.33, kLeastRatio = 0.3, kMostRatio = 3.3;
  if (draws.uniform() >= probability) return {};
  for (int i = 0; i < kTries; ++i) {
    const double area = draws.uniform(kLeastArea, kMostArea) * static_cast<double>(height * width);
    const double ratio = std::exp(draws.uniform(std::log(kLeastRatio), std::log(kMostRatio)));
    const int64_t h = std::llround(std::sqrt(area * ratio)), w = std::llround(std::sqrt(area / ratio));
    if (h < 1 || w < 1 || h >= height || w >= width) continue;
    return {.top = draws.below(height - h + 1), .left = draws.below(width - w + 1), .height = h, .width = w};
  }
  return {};
}

void flip_row(uint8_t* row, int64_t width) {
  std::reverse(row, row + width);
}

}  // namespace

void AugmentConfig::fields(config::Fields& f) {
  f("crop_padding", crop_padding, "crop at random out of the image with this many black pixels added on each side",
    config::range(0, 1024));
  f("flip", flip, "mirror an image with probability 1/2");
  f("erasing", erasing, "the share of images in which a random rectangle is erased", config::range(0, 1));
  f("mixup", mixup, "mix pairs of images by shares from Beta(mixup, mixup); 0: do not", config::range(0, 1000));
  f("cutmix", cutmix,
    "put a rectangle of another image into each; its share of the area is from Beta(cutmix, cutmix); 0: do not",
    config::range(0, 1000));
  f.section("rand_augment", rand_augment, "operations drawn for each image (RandAugment)");
  f("repeats", repeats,
    "how often an image is in a batch, each time changed anew; an epoch then has only that fraction of the images",
    config::range(1, 64));
}

void AugmentConfig::check(const config::Checker& c) const {
  const bool changes = crop_padding > 0 || flip || erasing > 0 || rand_augment.operations > 0;
  if (repeats > 1 && !changes) c.fail("repeats", "the images of a batch would be equal: nothing else changes them");
}

Augmentation draw_augmentation(const AugmentConfig& config, int64_t height, int64_t width, uint64_t seed, int64_t epoch,
                               int64_t example) {
  const auto draws = [&](Purpose purpose) { return Draws(seed, epoch, purpose, static_cast<uint64_t>(example)); };
  Augmentation drawn;
  if (config.crop_padding > 0) {
    Draws crop = draws(kCrop);
    drawn.down = crop.below(2 * config.crop_padding + 1) - config.crop_padding;
    drawn.right = crop.below(2 * config.crop_padding + 1) - config.crop_padding;
  }
  if (config.flip) drawn.flip = draws(kFlip).word() >> 31 != 0;
  if (config.rand_augment.operations > 0) {
    drawn.operations = draw_operations(config.rand_augment, draws(kRandAugment));
  }
  if (config.erasing > 0) drawn.erased = draw_box(draws(kErase), height, width, config.erasing);
  return drawn;
}

void crop_and_flip(const uint8_t* in, uint8_t* out, int64_t channels, int64_t height, int64_t width,
                   const Augmentation& augmentation) {
  const int64_t down = augmentation.down, right = augmentation.right;
  // The columns that show the image; none where it was moved out of sight.
  const int64_t first = std::clamp<int64_t>(-right, 0, width), last = std::clamp<int64_t>(width - right, first, width);
  for (int64_t c = 0; c < channels; ++c, in += height * width) {
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t from = y + down;
      if (from < 0 || from >= height || first == last) {
        std::memset(out, 0, static_cast<size_t>(width));
        continue;
      }
      std::memset(out, 0, static_cast<size_t>(first));
      std::memcpy(out + first, in + from * width + first + right, static_cast<size_t>(last - first));
      std::memset(out + last, 0, static_cast<size_t>(width - last));
      if (augmentation.flip) flip_row(out, width);
    }
  }
}

void erase(float* image, int64_t channels, int64_t height, int64_t width, const Box& box) {
  for (int64_t c = 0; c < channels; ++c, image += height * width) {
    for (int64_t y = box.top; y < box.top + box.height; ++y) {
      std::fill_n(image + y * width + box.left, box.width, 0.0f);
    }
  }
}

void copy_box(const float* from, float* to, int64_t channels, int64_t height, int64_t width, const Box& box) {
  for (int64_t c = 0; c < channels; ++c, from += height * width, to += height * width) {
    for (int64_t y = box.top; y < box.top + box.height; ++y) {
      std::copy_n(from + y * width + box.left, box.width, to + y * width + box.left);
    }
  }
}

Mix draw_mix(const AugmentConfig& config, int64_t height, int64_t width, uint64_t seed, int64_t epoch,
             const std::vector<int64_t>& examples) {
  uint64_t batch = examples.size();
  for (const int64_t example : examples)
    batch = ops::mix64(batch * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(example));
  const auto draws = [&](Purpose purpose) { return Draws(seed, epoch, purpose, batch); };
  Mix mix;
  mix.partners.resize(examples.size());
  std::iota(mix.partners.begin(), mix.partners.end(), int64_t{0});
  Draws partners = draws(kPartners);
  for (size_t i = mix.partners.size(); i > 1; --i) {
    std::swap(mix.partners[i - 1], mix.partners[static_cast<size_t>(partners.below(static_cast<int64_t>(i)))]);
  }
  const bool both = config.mixup > 0 && config.cutmix > 0;
  const bool cuts = both ? draws(kWhichMix).word() >> 31 != 0 : config.cutmix > 0;
  const double alpha = cuts ? config.cutmix : config.mixup;
  Draws shares = draws(kShare);
  const double a = shares.log_gamma_draw(alpha), b = shares.log_gamma_draw(alpha);
  const double share = 1.0 / (1.0 + std::exp(b - a));  // a Beta out of two Gammas
  mix.share = static_cast<float>(share);
  if (!cuts) return mix;
  // Cut around a point that is uniform in the image; what lies outside of the image is cut off.
  Draws place = draws(kCutBox);
  const double side = std::sqrt(1.0 - share);
  const auto cut = [&](int64_t size, int64_t& begin, int64_t& length) {
    const auto half = static_cast<int64_t>(static_cast<double>(size) * side / 2);
    const int64_t center = place.below(size);
    begin = std::max<int64_t>(0, center - half);
    length = std::min(size, center + half) - begin;
  };
  Box box;
  cut(height, box.top, box.height);
  cut(width, box.left, box.width);
  mix.share = 1.0f - static_cast<float>(box.height * box.width) / static_cast<float>(height * width);
  mix.box = box;
  return mix;
}

}  // namespace fovea::data
