#include "fovea/data/augment.h"

#include "fovea/ops/philox.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

namespace fovea::data {
namespace {

enum Purpose : uint32_t { kCrop, kFlip, kErase, kPartners, kShare };

/// Random numbers one after the other, for one purpose and one subject (an example, or a batch).
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, Purpose purpose, uint64_t subject)
      : key_(ops::philox_key(seed, static_cast<uint64_t>(epoch), kSite)), purpose_(purpose), subject_(subject) {}

  uint32_t word() {
    if (next_ % 4 == 0) {
      words_ = ops::philox(
          {next_ / 4, purpose_, static_cast<uint32_t>(subject_), static_cast<uint32_t>(subject_ >> 32)}, key_);
    }
    return words_[next_++ % 4];
  }

  /// Uniform in 0 .. count - 1; the bias is below count / 2^32.
  int64_t below(int64_t count) { return static_cast<int64_t>((uint64_t{word()} * static_cast<uint64_t>(count)) >> 32); }

  /// Uniform in (0, 1), the ends excluded, so that logarithms are finite.
  double uniform() { return (static_cast<double>(word()) + 0.5) / 4294967296.0; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  double normal() {  // Box and Muller
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

  /// The logarithm of a draw from Gamma(shape, 1): Marsaglia and Tsang 2000 for shape + 1, brought down to shape.
  /// In logarithms, since for small shapes the draw itself underflows.
  double log_gamma_draw(double shape) {
    const double d = shape + 1.0 - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
    while (true) {
      const double x = normal(), root = 1.0 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return std::log(d * v) + std::log(uniform()) / shape;
      }
    }
  }

 private:
  // Apart from the sites of a network's layers, which are hashes of paths.
  static constexpr uint64_t kSite = 0x696D616765730000ull;

  ops::PhiloxKey key_;
  uint32_t purpose_;
  uint64_t subject_;
  uint32_t next_ = 0;
  std::array<uint32_t, 4> words_{};
};

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

Mix draw_mix(double alpha, uint64_t seed, int64_t epoch, const std::vector<int64_t>& examples) {
  uint64_t batch = examples.size();
  for (const int64_t example : examples)
    batch = ops::mix64(batch * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(example));
  Mix mix;
  mix.partners.resize(examples.size());
  std::iota(mix.partners.begin(), mix.partners.end(), int64_t{0});
  Draws partners(seed, epoch, kPartners, batch);
  for (size_t i = mix.partners.size(); i > 1; --i) {
    std::swap(mix.partners[i - 1], mix.partners[static_cast<size_t>(partners.below(static_cast<int64_t>(i)))]);
  }
  Draws shares(seed, epoch, kShare, batch);
  const double a = shares.log_gamma_draw(alpha), b = shares.log_gamma_draw(alpha);
  mix.share = static_cast<float>(1.0 / (1.0 + std::exp(b - a)));  // a Beta out of two Gammas
  return mix;
}

}  // namespace fovea::data
