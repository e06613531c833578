// The products of short heads, compiled once for each SIMD target: rows lie in memory as the caller has them, nothing
// is packed or transposed. Included by the kernel only.

#if defined(FOVEA_OPS_FLASH_ATTENTION_SHORT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_FLASH_ATTENTION_SHORT_INL_H
#undef FOVEA_OPS_FLASH_ATTENTION_SHORT_INL_H
#else
#define FOVEA_OPS_FLASH_ATTENTION_SHORT_INL_H
#endif

#include "fovea/ops/cpu/flash_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Blocks of a product stay in the registers: 16 dot products in 32 registers (or 8 in 16), or 6 rows of sums.
constexpr int kDotColumns = HWY_MAX_BYTES == 64 ? 4 : 2;
constexpr int kSumRows = 6;
constexpr int kSumVectors = HWY_MAX_BYTES == 64 ? 4 : 2;

using D4 = hn::FixedTag<float, 4>;
constexpr D4 d4;

template <class DX>
HWY_INLINE hn::Vec<D4> add_blocks(DX dx, hn::Vec<DX> v) {
  if constexpr (sizeof(v) == 16) {
    return v;
  } else {
    const hn::Half<DX> half;
    return add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The sums of the lanes of four vectors.
HWY_INLINE hn::Vec<D4> sums_of_lanes(V a, V b, V e, V f) {
  const hn::Repartition<uint64_t, D> pairs;
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ef = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, e, f), hn::InterleaveUpper(d, e, f)));
  return add_blocks(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ef)),
                               hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ef))));
}

// out[c * ld + r] = a_r . b_c; four lanes are written for any number of rows.
template <int kRows, int kColumns>
HWY_NOINLINE void dot_block(const float* HWY_RESTRICT a, int64_t lda, const float* HWY_RESTRICT b, int64_t ldb,
                            int64_t depth, float* HWY_RESTRICT out, int64_t ld) {
  V sums[kColumns][4];
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) sums[c][r] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; k += kLanes) {
    V left[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) left[r] = hn::LoadU(d, a + r * lda + k);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const V right = hn::LoadU(d, b + c * ldb + k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[c][r] = hn::MulAdd(left[r], right, sums[c][r]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    hn::StoreU(sums_of_lanes(sums[c][0], sums[c][1], sums[c][2], sums[c][3]), d4, out + c * ld);
  }
}

// out_r = sum over t of w(r, t) x_t, where w(r, t) is w[t * ld + r], transposed w[r * ld + t].
template <int kRows, int kVectors, bool kTransposed>
HWY_NOINLINE void sum_block(const float* HWY_RESTRICT w, int64_t ld, const float* HWY_RESTRICT x, int64_t ldx,
                            int64_t count, float* HWY_RESTRICT out, int64_t ldo, bool stream) {
  V sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) sums[r][n] = hn::Zero(d);
  }
  for (int64_t t = 0; t < count; ++t) {
    V right[kVectors];
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) right[n] = hn::LoadU(d, x + n * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V left = hn::Set(d, w[kTransposed ? r * ld : r]);
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) sums[r][n] = hn::MulAdd(left, right[n], sums[r][n]);
    }
    w += kTransposed ? 1 : ld;
    x += ldx;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      float* to = out + r * ldo + n * kLanes;
      stream ? hn::Stream(sums[r][n], d, to) : hn::StoreU(sums[r][n], d, to);
    }
  }
}

template <int kColumns>
HWY_INLINE void dot_columns(int64_t rows, const float* a, int64_t lda, const float* b, int64_t ldb, int64_t depth,
                            float* out, int64_t ld) {
  switch (rows) {
    case 1:
      return dot_block<1, kColumns>(a, lda, b, ldb, depth, out, ld);
    case 2:
      return dot_block<2, kColumns>(a, lda, b, ldb, depth, out, ld);
    case 3:
      return dot_block<3, kColumns>(a, lda, b, ldb, depth, out, ld);
    default:
      return dot_block<4, kColumns>(a, lda, b, ldb, depth, out, ld);
  }
}

HWY_INLINE void dots(int64_t rows, int64_t columns, const float* a, int64_t lda, const float* b, int64_t ldb,
                     int64_t depth, float* out, int64_t ld) {
  int64_t c = 0;
  for (; c + kDotColumns <= columns; c += kDotColumns) {
    dot_columns<kDotColumns>(rows, a, lda, b + c * ldb, ldb, depth, out + c * ld, ld);
  }
  switch (columns - c) {
    case 1:
      return dot_columns<1>(rows, a, lda, b + c * ldb, ldb, depth, out + c * ld, ld);
    case 2:
      return dot_columns<HWY_MIN(2, kDotColumns)>(rows, a, lda, b + c * ldb, ldb, depth, out + c * ld, ld);
    case 3:
      return dot_columns<HWY_MIN(3, kDotColumns)>(rows, a, lda, b + c * ldb, ldb, depth, out + c * ld, ld);
    default:
      return;
  }
}

template <int kVectors, bool kTransposed>
HWY_INLINE void sum_strip(int64_t rows, const float* w, int64_t ld, const float* x, int64_t ldx, int64_t count,
                          float* out, int64_t ldo, bool stream) {
  switch (rows) {
    case 1:
      return sum_block<1, kVectors, kTransposed>(w, ld, x, ldx, count, out, ldo, stream);
    case 2:
      return sum_block<2, kVectors, kTransposed>(w, ld, x, ldx, count, out, ldo, stream);
    case 3:
      return sum_block<3, kVectors, kTransposed>(w, ld, x, ldx, count, out, ldo, stream);
    case 4:
      return sum_block<4, kVectors, kTransposed>(w, ld, x, ldx, count, out, ldo, stream);
    case 5:
      return sum_block<5, kVectors, kTransposed>(w, ld, x, ldx, count, out, ldo, stream);
    default:
      return sum_block<6, kVectors, kTransposed>(w, ld, x, ldx, count, out, ldo, stream);
  }
}

// A few rows of sums, all columns.
template <bool kTransposed>
HWY_INLINE void sums(int64_t rows, const float* w, int64_t ld, const float* x, int64_t ldx, int64_t count, float* out,
                     int64_t ldo, int64_t columns, bool stream) {
  // With nothing to add up, x may be null, of which there is no offset. It is not read then.
  if (count == 0) x = out;
  // Whole lines at whole addresses only.
  stream = stream && reinterpret_cast<uintptr_t>(out) % 64 == 0 && ldo % 16 == 0;
  int64_t n = 0;
  for (; n + kSumVectors * kLanes <= columns; n += kSumVectors * kLanes) {
    sum_strip<kSumVectors, kTransposed>(rows, w, ld, x + n, ldx, count, out + n, ldo, stream);
  }
  for (; n < columns; n += kLanes) sum_strip<1, kTransposed>(rows, w, ld, x + n, ldx, count, out + n, ldo, stream);
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
