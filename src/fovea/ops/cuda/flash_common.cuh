#pragma once

#include "fovea/ops/cuda/device.h"
#include "fovea/ops/cuda/flash_params.h"

/// What the flash-attention kernels share: sequences and masks, tiles in shared memory, products of tiles, dropout.
///
/// A block has four warps. A tile is rows of D 16-bit elements in shared memory, its 16-byte chunks permuted within
/// each row (chunk ^ row % 8), so that neither the reads of matrices nor the writes of fragments meet bank conflicts.
/// A warp owns 16 rows; (g, t) = (lane / 4, lane % 4) as in device.h.
namespace fovea::ops::cuda {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

FOVEA_DEVICE int lane_index() {
  return thread_index() % 32;
}
FOVEA_DEVICE int warp_index() {
  return thread_index() / 32;
}
FOVEA_DEVICE int smaller(int a, int b) {
  return a < b ? a : b;
}
FOVEA_DEVICE int larger(int a, int b) {
  return a > b ? a : b;
}
FOVEA_DEVICE float larger(float a, float b) {
  return a > b ? a : b;
}
FOVEA_DEVICE float minus_infinity() {
  return -__builtin_huge_valf();
}
FOVEA_HOST_DEVICE int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// ---- Sequences and masks -----------------------------------------------------------------------

/// One head of one sequence.
struct Sequence {
  int batch, head;
  int queries, keys;           // its sizes, by which causal and window are aligned
  int query_limit, key_limit;  // those that count
  int64_t query_row, key_row;  // where its rows begin, packed
};

FOVEA_DEVICE int clamp_length(int64_t length, int most) {
  return length < 0 ? 0 : length > most ? most : static_cast<int>(length);
}

FOVEA_DEVICE Sequence sequence_of(const FlashParams& p, int batch, int head) {
  Sequence s = {batch, head, p.max_query, p.max_key, 0, 0, 0, 0};
  if (p.query_offsets != nullptr) {
    s.query_row = p.query_offsets[batch];
    s.key_row = p.key_offsets[batch];
    s.queries = static_cast<int>(p.query_offsets[batch + 1] - s.query_row);
    s.keys = static_cast<int>(p.key_offsets[batch + 1] - s.key_row);
  }
  s.query_limit = p.query_lens != nullptr ? clamp_length(p.query_lens[batch], s.queries) : s.queries;
  s.key_limit = p.valid_lens != nullptr && p.valid_lens_query == 0
                    ? clamp_length(p.valid_lens[batch * p.valid_lens_batch], s.keys)
                    : s.keys;
  return s;
}

/// The same sequence, asked for again: what only the end of a kernel needs should not hold registers throughout.
FOVEA_DEVICE Sequence again(const FlashParams& p, const Sequence& s) {
  return sequence_of(p, opaque(s.batch), opaque(s.head));
}

/// The element (row 0, channel 0) of a head. Query rows start at s.query_row, key rows at s.key_row.
FOVEA_DEVICE int64_t head_offset(const Strides& strides, const Sequence& s, int64_t first_row) {
  return s.batch * strides.batch + s.head * strides.head + first_row * strides.row;
}

/// All masks but the bias leave each query one interval of keys, begin <= j < end. Empty: begin = kNone, end = 0.
inline constexpr int kNone = 0x7FFFFFFF;
struct Interval {
  int begin, end;
};

FOVEA_DEVICE Interval keys_of(const FlashParams& p, const Sequence& s, int query) {
  if (query >= s.query_limit) return {kNone, 0};
  int begin = 0, end = s.key_limit;
  if (p.valid_lens != nullptr && p.valid_lens_query != 0) {
    end = clamp_length(p.valid_lens[s.batch * p.valid_lens_batch + query * p.valid_lens_query], end);
  }
  const int position = query + s.keys - s.queries;
  if (p.causal) end = smaller(end, position + 1);
  if (p.window_right >= 0) end = smaller(end, position + p.window_right + 1);
  if (p.window_left >= 0) begin = larger(0, position - p.window_left);
  if (begin >= end) return {kNone, 0};
  return {begin, end};
}

/// What some rows' intervals say about a tile of keys.
struct Span {
  int first, last;       // the union lies within first <= j < last
  int all_from, all_to;  // every row sees all_from <= j < all_to

  FOVEA_DEVICE bool misses(int begin, int end) const { return begin >= last || end <= first; }
  FOVEA_DEVICE bool covers(int begin, int end) const { return begin >= all_from && end <= all_to; }
};

FOVEA_DEVICE void extend(Span& span, Interval row) {
  span.first = smaller(span.first, row.begin);
  span.last = larger(span.last, row.end);
  span.all_from = larger(span.all_from, row.begin);
  span.all_to = smaller(span.all_to, row.end);
}

FOVEA_DEVICE Span empty_span() {
  return {kNone, 0, 0, kNone};
}

/// Over the lanes that differ in the bits from `Lowest` on.
template <int Lowest>
FOVEA_DEVICE Span span_of_warp(Span span) {
#pragma unroll
  for (int mask = Lowest; mask < 32; mask *= 2) {
    span.first = smaller(span.first, shuffle_xor(span.first, mask));
    span.last = larger(span.last, shuffle_xor(span.last, mask));
    span.all_from = larger(span.all_from, shuffle_xor(span.all_from, mask));
    span.all_to = smaller(span.all_to, shuffle_xor(span.all_to, mask));
  }
  return span;
}

/// The keys that any warp of the block needs; `scratch` is 8 bytes for each warp. Ends with a barrier passed.
FOVEA_DEVICE Interval keys_of_block(const Span& span, Shared scratch) {
  if (lane_index() == 0) {
    shared_store(scratch + 8 * warp_index(), span.first);
    shared_store(scratch + 8 * warp_index() + 4, span.last);
  }
  block_barrier();
  Interval all = {kNone, 0};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    all.begin = smaller(all.begin, shared_load_int(scratch + 8 * w));
    all.end = larger(all.end, shared_load_int(scratch + 8 * w + 4));
  }
  return all;
}

// ---- Tiles -------------------------------------------------------------------------------------

/// `tile` is a multiple of 2 D, so that tile_address(t, row, chunk ^ c) = tile_address(t, row, chunk) ^ (c << 4).
template <int D>
FOVEA_DEVICE Shared tile_address(Shared tile, int row, int chunk) {
  return tile + static_cast<Shared>(row * (2 * D) + ((chunk ^ (row & 7)) << 4));
}

template <int D>
inline constexpr int kRowBytes = 2 * D;

/// Starts copying rows [0, Rows) from `from`, whose rows are `stride` elements apart; zeros from row `rows` and from
/// channel `channels` on.
template <int D, int Rows>
FOVEA_DEVICE void load_tile(Shared tile, const void* from, int64_t stride, int rows, int channels) {
  constexpr int kChunks = D / 8, kStep = kThreads / kChunks;
  const int first = thread_index() / kChunks, chunk = thread_index() % kChunks;
  const bool wanted = 8 * chunk < channels;
  const char* source = static_cast<const char*>(from) + 2 * (first * stride + 8 * chunk);
#pragma unroll
  for (int i = 0; i < Rows / kStep; ++i) {
    const int row = i * kStep + first;
    copy_async(tile_address<D>(tile, row, chunk), source, wanted && row < rows);
    source += 2 * kStep * stride;
  }
}

/// Writes 16 rows of accumulators, each times factor[row / 8], by way of the tile rows that this warp owns and whose
/// content is no longer needed.
template <typename T, int D>
FOVEA_DEVICE void store_rows(const float (&sums)[D / 8][4], float factor0, float factor1, Shared tile, int first_row,
                             void* to, int64_t stride, int rows, int channels) {
  constexpr int kChunks = D / 8;
  const int lane = lane_index(), g = lane / 4, t = lane % 4;
  warp_barrier();
#pragma unroll
  for (int n = 0; n < kChunks; ++n) {
    shared_store(tile_address<D>(tile, first_row + g, n) + 4 * t, pack<T>(sums[n][0] * factor0, sums[n][1] * factor0));
    shared_store(tile_address<D>(tile, first_row + g + 8, n) + 4 * t,
                 pack<T>(sums[n][2] * factor1, sums[n][3] * factor1));
  }
  warp_barrier();
#pragma unroll
  for (int i = 0; i < 16 * kChunks / 32; ++i) {
    const int row = (32 * i + lane) / kChunks, chunk = (32 * i + lane) % kChunks;
    const Words4 words = shared_load4(tile_address<D>(tile, first_row + row, chunk));
    if (row < rows && 8 * chunk < channels) {
      *reinterpret_cast<Words4*>(static_cast<char*>(to) + 2 * (row * stride + 8 * chunk)) = words;
    }
  }
}

// ---- Products ----------------------------------------------------------------------------------

template <int N>
FOVEA_DEVICE void clear(float (&sums)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) sums[n][c] = 0.0f;
  }
}

/// sums[r] += (rows a_row + 16 r .. + 15 of A) * B^T, with the first 8 N rows of B from `b_row` on. Pairs of B's row
/// groups from row `limit` on are left out.
template <typename T, int D, int R, int N>
FOVEA_DEVICE void add_scores(float (&sums)[R][N][4], Shared a, int a_row, Shared b, int b_row, int limit = 8 * N) {
  const int lane = lane_index();
  // One instruction a step makes the addresses out of these; kept for all steps they would take 48 registers.
  const Shared from_a = opaque(tile_address<D>(a, a_row + (lane & 15), lane >> 4));
  const Shared from_b = opaque(tile_address<D>(b, b_row + (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1));
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t left[R][4];
#pragma unroll
    for (int r = 0; r < R; ++r) load_matrix_x4(left[r], (from_a ^ (32u * k)) + 16 * r * kRowBytes<D>);
#pragma unroll
    for (int n = 0; n < N / 2; ++n) {
      if (16 * n >= limit) continue;
      uint32_t right[4];
      load_matrix_x4(right, (from_b ^ (32u * k)) + 16 * n * kRowBytes<D>);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        multiply_add<T>(sums[r][2 * n], left[r], right[0], right[1]);
        multiply_add<T>(sums[r][2 * n + 1], left[r], right[2], right[3]);
      }
    }
  }
}

/// sums[r] += W[r] * B, with W (16 x 8 N) given as accumulators and the first 8 N rows of B from `b_row` on. Pairs of
/// row groups from row `limit` on are left out.
template <typename T, int D, int R, int N>
FOVEA_DEVICE void add_product(float (&sums)[R][D / 8][4], const float (&weights)[R][N][4], Shared b, int b_row,
                              int limit = 8 * N) {
  const int lane = lane_index();
  const Shared from = opaque(tile_address<D>(b, b_row + (lane & 15), lane >> 4));
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    if (16 * k >= limit) continue;
    uint32_t left[R][4];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      left[r][0] = pack<T>(weights[r][2 * k][0], weights[r][2 * k][1]);
      left[r][1] = pack<T>(weights[r][2 * k][2], weights[r][2 * k][3]);
      left[r][2] = pack<T>(weights[r][2 * k + 1][0], weights[r][2 * k + 1][1]);
      left[r][3] = pack<T>(weights[r][2 * k + 1][2], weights[r][2 * k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      uint32_t right[4];
      load_matrix_x4_transposed(right, (from ^ (32u * n)) + 16 * k * kRowBytes<D>);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        multiply_add<T>(sums[r][2 * n], left[r], right[0], right[1]);
        multiply_add<T>(sums[r][2 * n + 1], left[r], right[2], right[3]);
      }
    }
  }
}

// ---- Dropout -----------------------------------------------------------------------------------

/// Bit i: whether word i of the counter keeps its element.
FOVEA_DEVICE uint32_t draw_four(const FlashParams& p, const Sequence& s, int key, int query) {
  const auto words = philox(element_counter(static_cast<uint32_t>(key) / 4, static_cast<uint32_t>(query),
                                            static_cast<uint32_t>(s.batch), static_cast<uint32_t>(s.head)),
                            {opaque(p.philox.k0), opaque(p.philox.k1)});
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) bits |= words[i] >= p.drop_threshold ? 1u << i : 0u;
  return bits;
}

/// Which of the weights (16 queries x 8 N keys, N <= 8) are kept; from key `limit` on undrawn. Lanes share their draws:
/// one counter per four weights.
template <int N>
struct KeptByQuery {
  uint32_t rows[2];  // of g and g + 8

  FOVEA_DEVICE void draw(const FlashParams& p, const Sequence& s, int first_query, int first_key, int limit) {
    const int lane = lane_index(), g = lane / 4, t = lane % 4;
    uint32_t mine = 0;
    // Not unrolled further: the registers of eight draws at once would not fit beside the sums.
#pragma unroll 2
    for (int n = 0; n < N && 8 * n < limit; ++n) {
      mine |= draw_four(p, s, first_key + 8 * n + 4 * (t / 2), first_query + g + 8 * (t % 2)) << (4 * n);
    }
    const uint32_t other = shuffle_xor(mine, 1);
    rows[0] = t % 2 == 0 ? mine : other;
    rows[1] = t % 2 == 0 ? other : mine;
    // Shifted so that `kept` has constants only.
    rows[0] >>= 2 * (t % 2);
    rows[1] >>= 2 * (t % 2);
  }
  FOVEA_DEVICE bool kept(int n, int c) const {
    return (rows[c / 2] >> (4 * n + c % 2) & 1) != 0;
  }
};

/// The same for 16 keys x 8 N queries.
template <int N>
struct KeptByKey {
  uint32_t words[4];  // [2 * (key / 8) + query % 2]

  FOVEA_DEVICE void draw(const FlashParams& p, const Sequence& s, int first_query, int first_key, int limit) {
    const int lane = lane_index(), g = lane / 4, t = lane % 4, u = g % 4;
    uint32_t a0 = 0;
#pragma unroll 2
    for (int n = 0; n < N && 8 * n < limit; ++n) {
      a0 |= draw_four(p, s, first_key + 8 * (u / 2) + 4 * (g / 4), first_query + 8 * n + 2 * t + u % 2) << (4 * n);
    }
    uint32_t a1 = shuffle_xor(a0, 4), a2 = shuffle_xor(a0, 8), a3 = shuffle_xor(a0, 12);
    // a[m] is of lane u ^ m; put in order.
    const bool odd = u % 2 != 0, high = u / 2 != 0;
    const uint32_t b0 = odd ? a1 : a0, b1 = odd ? a0 : a1, b2 = odd ? a3 : a2, b3 = odd ? a2 : a3;
    words[0] = (high ? b2 : b0) >> u;
    words[1] = (high ? b3 : b1) >> u;
    words[2] = (high ? b0 : b2) >> u;
    words[3] = (high ? b1 : b3) >> u;
  }
  FOVEA_DEVICE bool kept(int n, int c) const {
    return (words[c] >> (4 * n) & 1) != 0;
  }
};

// ---- Bias --------------------------------------------------------------------------------------

FOVEA_DEVICE int64_t bias_offset(const FlashParams& p, const Sequence& s) {
  return s.batch * p.bias_batch + s.head * p.bias_head;
}

/// In units of the base-2 logarithm.
template <typename T>
FOVEA_DEVICE float bias_at(const FlashParams& p, int64_t offset, int query, int key) {
  const auto* bits = static_cast<const typename ElementBits<T>::Type*>(p.bias);
  return kLog2e * to_float<T>(bits[offset + query * p.bias_query + key * p.bias_key]);
}

}  // namespace fovea::ops::cuda
