// Philox4x32-10 on vectors of counters, compiled once for each SIMD target. Included by kernels only.

#if defined(FOVEA_OPS_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_PHILOX_INL_H
#undef FOVEA_OPS_PHILOX_INL_H
#else
#define FOVEA_OPS_PHILOX_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "fovea/ops/philox.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Counters to random words, in place. The products are 64 bits wide, so even and odd lanes go separate ways; between
// the rounds only the low halves of the wide lanes mean anything, which spares putting them together each time.
HWY_INLINE void philox_words(hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<uint32_t>> (&c)[4],
                             PhiloxKey key) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<uint32_t> narrow;
  const hn::RepartitionToWide<decltype(narrow)> wide;
  using W = hn::Vec<decltype(wide)>;
  const auto m0 = hn::Set(narrow, kPhiloxM0), m1 = hn::Set(narrow, kPhiloxM1);
  const auto mix = [&](W(&x)[4], W k0, W k1) HWY_ATTR {
    const W p0 = hn::MulEven(hn::BitCast(narrow, x[0]), m0), p1 = hn::MulEven(hn::BitCast(narrow, x[2]), m1);
    x[0] = hn::Xor3(hn::ShiftRight<32>(p1), x[1], k0);
    x[2] = hn::Xor3(hn::ShiftRight<32>(p0), x[3], k1);
    x[1] = p1;
    x[3] = p0;
  };
  W even[4], odd[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    even[i] = hn::BitCast(wide, c[i]);
    odd[i] = hn::ShiftRight<32>(even[i]);
  }
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const W k0 = hn::Set(wide, key.k0), k1 = hn::Set(wide, key.k1);
    mix(even, k0, k1);
    mix(odd, k0, k1);
    key.k0 += kPhiloxW0;
    key.k1 += kPhiloxW1;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    c[i] = hn::OddEven(hn::BitCast(narrow, hn::ShiftLeft<32>(odd[i])), hn::BitCast(narrow, even[i]));
  }
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
