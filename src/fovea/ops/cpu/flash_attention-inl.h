// What the forward and the backward kernel share, compiled once for each SIMD target: a register-blocked product of
// small matrices, packing, the exponential, and the words of dropout. Included by the kernels only.

#if defined(FOVEA_OPS_FLASH_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_FLASH_ATTENTION_INL_H
#undef FOVEA_OPS_FLASH_ATTENTION_INL_H
#else
#define FOVEA_OPS_FLASH_ATTENTION_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "fovea/ops/cpu/flash_attention_kernel.h"
#include "fovea/ops/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using D = hn::ScalableTag<float>;
using DU = hn::Rebind<uint32_t, D>;
using DI = hn::Rebind<int32_t, D>;
using V = hn::Vec<D>;
constexpr D d;
constexpr DU du;
constexpr DI di;

constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(float);
// Rows of the left factor, scores and weights lie at this distance: a constant, so that the kernels address all rows
// from one register; an odd number of cache lines, so that they do not fall on one another.
constexpr int64_t kRow = 272;
// Accumulators of a product: 2 x 12 of 32 registers, or 2 x 6 of 16.
constexpr int kAccumulators = HWY_MAX_BYTES == 64 ? 24 : 12;
constexpr int kPanel = 12;  // the most rows of a panel
template <int kVectors>
constexpr int kMaxRows = kAccumulators / kVectors < kPanel ? kAccumulators / kVectors : kPanel;

constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

HWY_INLINE int64_t round_up(int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// c[m][n] (+)= sum_k a(m, k) * b[k][n] for kRows rows and kVectors vectors. a(m, k) is a[m * kRow + k], transposed
// a[k * kRow + m].
template <int kRows, int kVectors, bool kTransposed, bool kAdd>
HWY_NOINLINE void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t ldb,
                                float* HWY_RESTRICT c, int64_t ldc, int64_t depth) {
  V sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      sums[m][n] = hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    V right[kVectors];
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) right[n] = hn::LoadU(d, b + n * kLanes);
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m) {
      const V left = hn::Set(d, kTransposed ? a[m] : a[m * kRow]);
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) sums[m][n] = hn::MulAdd(left, right[n], sums[m][n]);
    }
    a += kTransposed ? kRow : 1;
    b += ldb;
  }
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      // Added last, not first: sums of sums round less than one long sum.
      if (kAdd) sums[m][n] = hn::Add(sums[m][n], hn::LoadU(d, c + m * ldc + n * kLanes));
      hn::StoreU(sums[m][n], d, c + m * ldc + n * kLanes);
    }
  }
}

using TileFunction = void (*)(const float*, const float*, int64_t, float*, int64_t, int64_t);

template <int kVectors, bool kTransposed, bool kAdd>
HWY_INLINE TileFunction tile_function(int64_t rows) {
  // Entries beyond kMaxRows are never asked for.
#define FOVEA_TILE(r) multiply_tile<(r < kMaxRows<kVectors> ? r : kMaxRows<kVectors>), kVectors, kTransposed, kAdd>
  static constexpr TileFunction kFunctions[kPanel] = {FOVEA_TILE(1), FOVEA_TILE(2),  FOVEA_TILE(3),  FOVEA_TILE(4),
                                                      FOVEA_TILE(5), FOVEA_TILE(6),  FOVEA_TILE(7),  FOVEA_TILE(8),
                                                      FOVEA_TILE(9), FOVEA_TILE(10), FOVEA_TILE(11), FOVEA_TILE(12)};
#undef FOVEA_TILE
  return kFunctions[rows - 1];
}

// All rows against one column strip, in panels of about equal height: a last panel of one row would waste the others.
template <int kVectors, bool kTransposed, bool kAdd>
HWY_INLINE void multiply_strip(const float* a, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t rows,
                               int64_t depth) {
  int64_t panels = (rows + kMaxRows<kVectors> - 1) / kMaxRows<kVectors>;
  for (int64_t row = 0; panels > 0; --panels) {
    const int64_t height = (rows - row + panels - 1) / panels;
    tile_function<kVectors, kTransposed, kAdd>(height)(a + (kTransposed ? row : row * kRow), b, ldb, c + row * ldc, ldc,
                                                       depth);
    row += height;
  }
}

template <bool kTransposed, bool kAdd>
HWY_INLINE void multiply_depth(const float* a, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t rows,
                               int64_t vectors, int64_t depth) {
  int64_t v = 0;
  if (vectors % 2 == 1 && vectors >= 3) {
    multiply_strip<3, kTransposed, kAdd>(a, b, ldb, c, ldc, rows, depth);
    v = 3;
  } else if (vectors == 1) {
    multiply_strip<1, kTransposed, kAdd>(a, b, ldb, c, ldc, rows, depth);
    v = 1;
  }
  for (; v < vectors; v += 2) {
    multiply_strip<2, kTransposed, kAdd>(a, b + v * kLanes, ldb, c + v * kLanes, ldc, rows, depth);
  }
}

// c (+)= a b for `rows` rows and `vectors` vectors of columns. Long sums are cut, for their rounding.
template <bool kTransposed, bool kAdd>
HWY_INLINE void multiply(const float* a, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t rows,
                         int64_t vectors, int64_t depth) {
  constexpr int64_t kLongest = 128;
  const int64_t pieces = HWY_MAX((depth + kLongest - 1) / kLongest, 1);
  const int64_t first = (depth + pieces - 1) / pieces;
  multiply_depth<kTransposed, kAdd>(a, b, ldb, c, ldc, rows, vectors, first);
  for (int64_t k = first; k < depth; k += first) {
    multiply_depth<kTransposed, true>(a + (kTransposed ? k * kRow : k), b + k * ldb, ldb, c, ldc, rows, vectors,
                                      HWY_MIN(first, depth - k));
  }
}

// e^x for x not above 80; 0 below -87, where it would be denormal; NaN for NaN.
HWY_INLINE V exp(V natural) {
  // Rounding this product costs little where the result is not small.
  const V x = hn::Mul(natural, hn::Set(d, kLog2E));
  const auto n = hn::NearestInt(x);
  const V r = hn::Sub(x, hn::ConvertTo(d, n));  // in [-1/2, 1/2]
  // Minimax in relative error, 2e-9 before rounding.
  V p = hn::MulAdd(hn::Set(d, 1.5345806e-04f), r, hn::Set(d, 1.3399931e-03f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.6184891e-03f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.5503286e-02f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.4022646e-01f));
  p = hn::MulAdd(p, r, hn::Set(d, 6.9314718e-01f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // A product of floats, not a sum of exponents: NaN stays NaN.
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
}

// Copies `rows` rows of `columns` to rows of `ld`, with zeros up to a whole vector.
HWY_INLINE void pack_rows(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to, int64_t ld) {
  const int64_t whole = columns / kLanes * kLanes;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = from + r * stride;
    float* out = to + r * ld;
    for (int64_t c = 0; c < whole; c += kLanes) hn::StoreU(hn::LoadU(d, in + c), d, out + c);
    if (whole == columns) continue;
    hn::StoreU(hn::Zero(d), d, out + whole);
    for (int64_t c = whole; c < columns; ++c) out[c] = in[c];
  }
}

// rows x columns -> columns x rows, times a factor, zeros behind each row up to a whole vector.
HWY_INLINE void pack_transposed(const float* from, int64_t stride, int64_t rows, int64_t columns, float factor,
                                float* to, int64_t ld) {
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<uint64_t, 2> d2;
  const auto scale = hn::Set(d4, factor);
  const int64_t padded = round_up(rows);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* in = from + r * stride;
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const auto a = hn::LoadU(d4, in + c), b = hn::LoadU(d4, in + stride + c), e = hn::LoadU(d4, in + 2 * stride + c),
                 f = hn::LoadU(d4, in + 3 * stride + c);
      const auto ab0 = hn::BitCast(d2, hn::InterleaveLower(d4, a, b)),
                 ab1 = hn::BitCast(d2, hn::InterleaveUpper(d4, a, b));
      const auto ef0 = hn::BitCast(d2, hn::InterleaveLower(d4, e, f)),
                 ef1 = hn::BitCast(d2, hn::InterleaveUpper(d4, e, f));
      float* out = to + c * ld + r;
      hn::StoreU(hn::Mul(hn::BitCast(d4, hn::InterleaveLower(d2, ab0, ef0)), scale), d4, out);
      hn::StoreU(hn::Mul(hn::BitCast(d4, hn::InterleaveUpper(d2, ab0, ef0)), scale), d4, out + ld);
      hn::StoreU(hn::Mul(hn::BitCast(d4, hn::InterleaveLower(d2, ab1, ef1)), scale), d4, out + 2 * ld);
      hn::StoreU(hn::Mul(hn::BitCast(d4, hn::InterleaveUpper(d2, ab1, ef1)), scale), d4, out + 3 * ld);
    }
    for (; c < columns; ++c) {
      for (int64_t i = 0; i < 4; ++i) to[c * ld + r + i] = in[i * stride + c] * factor;
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t i = r; i < padded; ++i) to[c * ld + i] = i < rows ? from[i * stride + c] * factor : 0.0f;
  }
}

// Writes the first `columns` of rows of whole vectors, times a factor.
HWY_INLINE void store_row(const float* from, V factor, int64_t columns, float* to) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, from + c), factor), d, to + c);
  if (c < columns) {
    HWY_ALIGN float rest[kLanes];
    hn::Store(hn::Mul(hn::LoadU(d, from + c), factor), d, rest);
    for (int64_t i = c; i < columns; ++i) to[i] = rest[i - c];
  }
}

// row[i] = value for i in [begin, end), both within whole vectors.
HWY_INLINE void fill(float* row, int64_t begin, int64_t end, float value) {
  const V v = hn::Set(d, value);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) hn::StoreU(v, d, row + i);
  for (; i < end; ++i) row[i] = value;
}

// A panel of queries against a tile of keys: which columns of the tile each row may see.
struct Window {
  int64_t begin[kPanel], end[kPanel];  // relative to the tile, within it
  int64_t first_vector, last_vector;   // the vectors to compute; empty when no row sees any key
};

HWY_INLINE void make_window(const int64_t* begins, const int64_t* ends, int64_t rows, int64_t tile, int64_t width,
                            Window& w) {
  int64_t lowest = width, highest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = HWY_MAX(begins[r] - tile, 0), end = HWY_MIN(ends[r] - tile, width);
    w.begin[r] = begin < end ? begin : 0;
    w.end[r] = begin < end ? end : 0;
    if (begin >= end) continue;
    lowest = HWY_MIN(lowest, begin);
    highest = HWY_MAX(highest, end);
  }
  w.first_vector = lowest < highest ? lowest / kLanes : 0;
  w.last_vector = (highest + kLanes - 1) / kLanes;
}

// Adds the bias to the scores of one row and forbids what the row may not see.
HWY_INLINE void restrict_scores(float* scores, const Window& w, int64_t r, const float* bias, int64_t bias_stride) {
  const int64_t from = w.first_vector * kLanes, to = w.last_vector * kLanes;
  if (bias != nullptr) {
    int64_t c = w.begin[r];
    if (bias_stride == 1) {
      for (; c + kLanes <= w.end[r]; c += kLanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, bias + c), hn::LoadU(d, scores + c)), d, scores + c);
      }
    }
    for (; c < w.end[r]; ++c) scores[c] += bias[c * bias_stride];
  }
  if (w.begin[r] > from) fill(scores, from, w.begin[r], kMinusInfinity);
  if (w.end[r] < to) fill(scores, HWY_MAX(from, w.end[r]), to, kMinusInfinity);
}

// Whether a row of scores whose largest is given is forbidden whole. Max passes over NaN: a row of NaN and of forbidden
// scores looks the same, and its largest becomes NaN here.
HWY_INLINE bool sees_nothing(const float* scores, int64_t from, int64_t to, V& largest) {
  if (hn::GetLane(largest) != kMinusInfinity) return false;
  for (int64_t c = from; c < to; c += kLanes) {
    const V s = hn::LoadU(d, scores + c);
    if (hn::AllFalse(d, hn::IsNaN(s))) continue;
    largest = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    return false;
  }
  return true;
}

// The random words of rows [row, row + rows) and columns [4 * block, 4 * (block + blocks)), row by row without gaps.
// Blocks of all rows share vectors, so that short rows fill them. Writes up to 4 vectors beyond the end.
HWY_INLINE void draw_words(const AttentionDropout& dropout, int64_t row, int64_t rows, int64_t block, int64_t blocks,
                           uint32_t* words) {
  const auto width = hn::Set(du, static_cast<uint32_t>(blocks));
  const auto first = hn::Set(du, static_cast<uint32_t>(block));
  HWY_ALIGN uint32_t rows_of[kLanes], blocks_of[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    rows_of[i] = static_cast<uint32_t>(row + i / blocks);
    blocks_of[i] = static_cast<uint32_t>(i % blocks);
  }
  auto r = hn::Load(du, rows_of), b = hn::Load(du, blocks_of);
  const auto step_rows = hn::Set(du, static_cast<uint32_t>(kLanes / blocks));
  const auto step_blocks = hn::Set(du, static_cast<uint32_t>(kLanes % blocks));
  const auto last_block = hn::Set(di, static_cast<int32_t>(blocks - 1));
  for (int64_t i = 0; i < rows * blocks; i += kLanes) {
    hn::Vec<DU> c[4] = {hn::Add(b, first), r, hn::Set(du, dropout.sequence), hn::Set(du, dropout.head)};
    philox_words(c, dropout.key);
    hn::StoreInterleaved4(c[0], c[1], c[2], c[3], du, words + 4 * i);
    b = hn::Add(b, step_blocks);
    r = hn::Add(r, step_rows);
    const auto wraps = hn::Gt(hn::BitCast(di, b), last_block);
    b = hn::IfThenElse(hn::RebindMask(du, wraps), hn::Sub(b, width), b);
    r = hn::IfThenElse(hn::RebindMask(du, wraps), hn::Add(r, hn::Set(du, 1u)), r);
  }
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
