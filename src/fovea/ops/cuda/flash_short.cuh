#pragma once

#include "fovea/ops/cuda/flash_backward.cuh"

/// Heads of at most 64 queries, keys and channels, of which models of words and patches have thousands. One, two or
/// four warps have a head: all of it is in shared memory once, the softmax is a single pass, and backward computes all
/// three gradients in one block, each by the warp that owns its rows. Each warp owns 16 queries and 16 keys.
namespace fovea::ops::cuda {

inline constexpr int kShort = 64;

struct ShortTile {
  static constexpr int kBytes = kShort * kRowBytes<kShort>;
  static constexpr int kForwardBytes = 3 * kBytes;
  static constexpr int kBackwardBytes = 4 * kBytes + 4 * kShort * 4;
};

inline bool is_short(const FlashParams& p) {
  return !p.is_float32 && p.max_query <= kShort && p.max_key <= kShort && p.head_dim <= kShort && p.value_dim <= kShort;
}

FOVEA_HOST_DEVICE int warps_per_head(const FlashParams& p) {
  const int rows = p.max_query > p.max_key ? p.max_query : p.max_key;
  return rows <= 16 ? 1 : rows <= 32 ? 2 : 4;
}

inline LaunchShape short_launch(const FlashParams& p, int shared_bytes) {
  return {divide_up(int64_t{p.batch} * p.heads, kWarps / warps_per_head(p)), kThreads, shared_bytes};
}

/// What a warp works on: rows of the block's tiles and of its sequence.
struct ShortShare {
  Sequence s;
  int warps;     // of this head
  int tile_row;  // where the 16 rows of this warp lie in the tiles
  int head_row;  // where the head's rows begin in the tiles
  int first;     // this warp's first query and first key

  FOVEA_DEVICE explicit ShortShare(const FlashParams& p) {
    warps = warps_per_head(p);
    const int64_t pair = block_index() * (kWarps / warps) + warp_index() / warps;
    s = {};  // past the last head: nothing to read, nothing to write
    if (pair < int64_t{p.batch} * p.heads) {
      s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
    }
    if (p.valid_lens_query != 0) {  // keys that no query sees are not read
      int end = larger(keys_of(p, s, lane_index()).end, keys_of(p, s, lane_index() + 32).end);
#pragma unroll
      for (int mask = 1; mask < 32; mask *= 2) end = larger(end, shuffle_xor(end, mask));
      s.key_limit = end;
    }
    tile_row = 16 * warp_index();
    head_row = 16 * warps * (warp_index() / warps);
    first = tile_row - head_row;
  }

  /// Among the warps that share a head, and at least those.
  FOVEA_DEVICE void barrier() const {
    if (warps == 1) {
      warp_barrier();
    } else {
      block_barrier();
    }
  }

  /// Starts copying this warp's 16 rows of one tensor.
  FOVEA_DEVICE void load(Shared tile, const void* tensor, const Strides& strides, int64_t first_row, int limit,
                         int channels) const {
    const int row = lane_index() / 8, chunk = lane_index() % 8;
    const char* base = static_cast<const char*>(tensor) + 2 * head_offset(strides, s, first_row + first);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      copy_async(tile_address<kShort>(tile, tile_row + 4 * i + row, chunk),
                 base + 2 * ((4 * i + row) * strides.row + 8 * chunk),
                 first + 4 * i + row < limit && 8 * chunk < channels);
    }
  }
};

template <typename T>
FOVEA_DEVICE void flash_short_forward(const FlashParams& p) {
  constexpr int D = kShort, N = kShort / 8;
  const Shared queries_tile = shared_begin();
  const Shared keys_tile = queries_tile + ShortTile::kBytes;
  const Shared values_tile = keys_tile + ShortTile::kBytes;
  const ShortShare share(p);
  const Sequence& s = share.s;

  share.load(queries_tile, p.query, p.query_strides, s.query_row, s.query_limit, p.head_dim);
  share.load(keys_tile, p.key, p.key_strides, s.key_row, s.key_limit, p.head_dim);
  copy_async_commit();
  share.load(values_tile, p.value, p.value_strides, s.key_row, s.key_limit, p.value_dim);
  copy_async_commit();

  const int g = lane_index() / 4, t = lane_index() % 4;
  Span span = empty_span();
  extend(span, keys_of(p, s, share.first + g));
  extend(span, keys_of(p, s, share.first + g + 8));
  span = span_of_warp<4>(span);
  const int limit = span.last;

  float scores[1][N][4];
  clear(scores[0]);
  const ScoreScale scale(p);
  copy_async_wait<1>();
  share.barrier();
  add_scores<T, D>(scores, queries_tile, share.tile_row, keys_tile, share.head_row, limit);
  mask_scores<T>(scores[0], p, s, share.first, 0, scale.multiplier, limit);

  float maximum[2], sum[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    maximum[half] = minus_infinity();
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (8 * (n & ~1) >= limit) continue;
      maximum[half] = larger(maximum[half], larger(scores[0][n][2 * half], scores[0][n][2 * half + 1]));
    }
    maximum[half] = larger(maximum[half], shuffle_xor(maximum[half], 1));
    maximum[half] = larger(maximum[half], shuffle_xor(maximum[half], 2));
    const float base = maximum[half] == minus_infinity() ? 0.0f : maximum[half] * scale.factor;
    sum[half] = 0.0f;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (8 * (n & ~1) >= limit) continue;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = scores[0][n][2 * half + e];
        x = exp2_fast(x * scale.factor - base);
        sum[half] += x;
      }
    }
    sum[half] += shuffle_xor(sum[half], 1);
    sum[half] += shuffle_xor(sum[half], 2);
  }
  if (p.drop_threshold != 0) {
    KeptByQuery<N> kept;
    kept.draw(p, s, share.first, 0, limit);
    drop(scores[0], kept);
  }

  float output[1][D / 8][4];
  clear(output[0]);
  copy_async_wait<0>();
  share.barrier();
  add_product<T, D>(output, scores, values_tile, share.head_row, limit);

  float* lse = p.lse + head_offset(p.lse_strides, s, s.query_row + share.first);
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    inverse[half] = sum[half] == 0.0f ? 0.0f : p.keep_scale / sum[half];
    const int row = 8 * half + g;
    if (t == 0 && share.first + row < s.queries) {
      lse[row * p.lse_strides.row] =
          sum[half] == 0.0f ? minus_infinity() : kLn2 * (maximum[half] * scale.factor + log2_of(sum[half]));
    }
  }
  store_rows<T, D>(output[0], inverse[0], inverse[1], queries_tile, share.tile_row,
                   static_cast<uint16_t*>(p.output) + head_offset(p.output_strides, s, s.query_row + share.first),
                   p.output_strides.row, s.queries - share.first, p.value_dim);
}

/// dQ, dK and dV, with delta computed on the way.
template <typename T>
FOVEA_DEVICE void flash_short_backward(const FlashParams& p) {
  constexpr int D = kShort, N = kShort / 8;
  const Shared queries_tile = shared_begin();
  const Shared keys_tile = queries_tile + ShortTile::kBytes;
  const Shared values_tile = keys_tile + ShortTile::kBytes;
  const Shared gradients_tile = values_tile + ShortTile::kBytes;
  const QueryInfo info = {gradients_tile + ShortTile::kBytes, kShort};
  const ShortShare share(p);
  const Sequence& s = share.s;

  share.load(queries_tile, p.query, p.query_strides, s.query_row, s.query_limit, p.head_dim);
  share.load(keys_tile, p.key, p.key_strides, s.key_row, s.key_limit, p.head_dim);
  share.load(values_tile, p.value, p.value_strides, s.key_row, s.key_limit, p.value_dim);
  share.load(gradients_tile, p.grad_output, p.grad_output_strides, s.query_row, s.query_limit, p.value_dim);
  copy_async_commit();

  const int own = lane_index() / 2;  // two lanes look after a query
  QueryFacts facts = {-minus_infinity(), delta_of_lane<T>(p, s, share.first + own, lane_index() % 2, 2)};
  facts.delta += shuffle_xor(facts.delta, 1);
  const Interval seen = keys_of(p, s, share.first + own);
  if (seen.end > 0) {
    const float lse = p.lse[head_offset(p.lse_strides, s, s.query_row + share.first + own)];
    if (lse != minus_infinity()) facts.lse = lse * kLog2e;
  }
  if (lane_index() % 2 == 0) info.store(share.tile_row + own, facts, seen);
  Span span = empty_span();
  extend(span, seen);
  span = span_of_warp<2>(span);
  copy_async_wait<0>();
  share.barrier();

  const ScoreScale scale(p);
  const int g = lane_index() / 4;
  float grad_query[1][D / 8][4];
  clear(grad_query[0]);
  {
    float scores[1][N][4], products[1][N][4];
    clear(scores[0]);
    clear(products[0]);
    add_scores<T, D>(scores, queries_tile, share.tile_row, keys_tile, share.head_row, span.last);
    add_scores<T, D>(products, gradients_tile, share.tile_row, values_tile, share.head_row, span.last);
    const QueryFacts of_rows[2] = {
        {shared_load_float(info.at(0, share.tile_row + g)), shared_load_float(info.at(1, share.tile_row + g))},
        {shared_load_float(info.at(0, share.tile_row + g + 8)), shared_load_float(info.at(1, share.tile_row + g + 8))}};
    weigh_by_query<T>(scores[0], products[0], p, s, share.first, 0, of_rows, true, scale, span.last);
    add_product<T, D>(grad_query, products, keys_tile, share.head_row, span.last);
  }
  float grad_key[1][D / 8][4], grad_value[1][D / 8][4];
  clear(grad_key[0]);
  clear(grad_value[0]);
  {
    const int limit = share.first < s.key_limit ? s.query_limit : 0;
    float scores[1][N][4], products[1][N][4];
    clear(scores[0]);
    clear(products[0]);
    add_scores<T, D>(scores, keys_tile, share.tile_row, queries_tile, share.head_row, limit);
    add_scores<T, D>(products, values_tile, share.tile_row, gradients_tile, share.head_row, limit);
    weigh_by_key<T>(scores[0], products[0], p, s, 0, share.first, info, share.head_row, true, scale, limit);
    add_product<T, D>(grad_value, scores, gradients_tile, share.head_row, limit);
    add_product<T, D>(grad_key, products, queries_tile, share.head_row, limit);
  }

  share.barrier();  // the tiles now carry the results
  store_rows<T, D>(
      grad_query[0], p.scale, p.scale, queries_tile, share.tile_row,
      static_cast<uint16_t*>(p.grad_query) + head_offset(p.grad_query_strides, s, s.query_row + share.first),
      p.grad_query_strides.row, s.queries - share.first, p.head_dim);
  store_rows<T, D>(grad_key[0], p.scale, p.scale, keys_tile, share.tile_row,
                   static_cast<uint16_t*>(p.grad_key) + head_offset(p.grad_key_strides, s, s.key_row + share.first),
                   p.grad_key_strides.row, s.keys - share.first, p.head_dim);
  store_rows<T, D>(grad_value[0], 1.0f, 1.0f, values_tile, share.tile_row,
                   static_cast<uint16_t*>(p.grad_value) + head_offset(p.grad_value_strides, s, s.key_row + share.first),
                   p.grad_value_strides.row, s.keys - share.first, p.value_dim);
}

template <bool Backward>
FOVEA_KERNEL(kThreads, Backward ? 3 : 4)
flash_short_kernel(const FlashParams p) {
  if constexpr (Backward) {
    if (p.is_float16) {
      flash_short_backward<Float16>(p);
    } else {
      flash_short_backward<BFloat16>(p);
    }
  } else {
    if (p.is_float16) {
      flash_short_forward<Float16>(p);
    } else {
      flash_short_forward<BFloat16>(p);
    }
  }
}

}  // namespace fovea::ops::cuda
