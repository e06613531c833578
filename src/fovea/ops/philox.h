#pragma once

#include <array>
#include <cstdint>

/// Philox4x32-10 and how fovea keys it. Plain integers only: included by the ops, by kernels and by tests.
namespace fovea::ops {

inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxW1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

struct PhiloxKey {
  uint32_t k0, k1;
};

/// splitmix64's finaliser: every input bit reaches every output bit.
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// One 64-bit Philox key out of (seed, step, site). Chained, so that swapping two of them gives another key.
constexpr PhiloxKey philox_key(uint64_t seed, uint64_t step, uint64_t site) {
  const uint64_t h = mix64(mix64(mix64(seed + 0x9E3779B97F4A7C15ull) + step) + site);
  return {static_cast<uint32_t>(h), static_cast<uint32_t>(h >> 32)};
}

/// Four random 32-bit words for one counter.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxM0} * c[0];
    const uint64_t p1 = uint64_t{kPhiloxM1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key.k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key.k1, static_cast<uint32_t>(p0)};
    key.k0 += kPhiloxW0;
    key.k1 += kPhiloxW1;
  }
  return c;
}

/// The counter of the four elements (sequence, head, row, 4 * block .. 4 * block + 3).
constexpr std::array<uint32_t, 4> element_counter(uint32_t block, uint32_t row, uint32_t sequence, uint32_t head) {
  return {block, row, sequence, head};
}

/// What a dropout of share p draws: an element whose word is below `threshold` falls, the others are multiplied by
/// `keep_scale`.
struct DropoutDraw {
  PhiloxKey key = {0, 0};
  uint64_t threshold = 0;  // 0: no element falls; 2^32: all fall
  double keep_scale = 1;   // 1 / (1 - p); 0 when all fall
};

/// The draw of `rng` = {seed, step, site} with 0 <= p <= 1.
inline DropoutDraw dropout_draw(const int64_t* rng, double p) {
  return {philox_key(static_cast<uint64_t>(rng[0]), static_cast<uint64_t>(rng[1]), static_cast<uint64_t>(rng[2])),
          static_cast<uint64_t>(p * 4294967296.0), p < 1.0 ? 1.0 / (1.0 - p) : 0.0};
}

}  // namespace fovea::ops
