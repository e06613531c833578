#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "fovea/ops/philox.h"

namespace fovea::data {

/// What random numbers of images are for. The number of each stays, or runs would change.
enum Purpose : uint32_t { kCrop, kFlip, kErase, kPartners, kShare, kRandAugment, kCutBox, kWhichMix };

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

}  // namespace fovea::data
