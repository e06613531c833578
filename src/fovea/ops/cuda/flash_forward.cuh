#pragma once

#include "fovea/ops/cuda/flash_common.cuh"

/// output = softmax(scale * Q K^T + bias) V and lse. A block owns 64 or 128 queries of a head and walks over the tiles
/// of keys that any of them sees; each warp keeps its queries' sums in registers (Dao, "FlashAttention-2", 2023).
namespace fovea::ops::cuda {

template <int D>
struct ForwardTile {
  // Two groups of 16 queries a warp halve the traffic of K and V from shared memory, as far as the registers go.
  static constexpr int kGroups = D == 256 ? 1 : 2;
  static constexpr int kQueries = 16 * kGroups * kWarps;
  static constexpr int kKeys = D == 64 ? 64 : 32;
  static constexpr int kQueryBytes = kQueries * kRowBytes<D>;
  static constexpr int kKeyBytes = kKeys * kRowBytes<D>;
  static constexpr int kSharedBytes = kQueryBytes + 2 * kKeyBytes + 8 * kWarps;
};

template <int D>
LaunchShape forward_launch(const FlashParams& p) {
  return {divide_up(p.max_query, ForwardTile<D>::kQueries) * p.batch * p.heads, kThreads, ForwardTile<D>::kSharedBytes};
}

/// The running maximum and sum of a warp's rows: [group][row / 8].
template <int R>
struct SoftmaxState {
  float maximum[R][2], sum[R][2];
};

/// Scores to weights exp2(factor * score - factor * maximum), the old sums scaled to the new maximum.
template <int D, int R, int N>
FOVEA_DEVICE void softmax_step(float (&scores)[R][N][4], float (&output)[R][D / 8][4], SoftmaxState<R>& state,
                               float factor) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = state.maximum[r][half];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        maximum = larger(maximum, larger(scores[r][n][2 * half], scores[r][n][2 * half + 1]));
      }
      maximum = larger(maximum, shuffle_xor(maximum, 1));
      maximum = larger(maximum, shuffle_xor(maximum, 2));
      // A row that has seen no key yet must not compute infinity - infinity.
      const float base = maximum == minus_infinity() ? 0.0f : maximum * factor;
      const float correction = exp2_fast(state.maximum[r][half] * factor - base);
      state.maximum[r][half] = maximum;
      float sum = 0.0f;
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = scores[r][n][2 * half + e];
          x = exp2_fast(x * factor - base);
          sum += x;
        }
      }
      state.sum[r][half] = state.sum[r][half] * correction + sum;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        output[r][n][2 * half] *= correction;
        output[r][n][2 * half + 1] *= correction;
      }
    }
  }
}

/// Leaves the scores of 16 queries times the multiplier, with the bias, and -infinity where forbidden. Pairs of
/// groups of eight from key `limit` on are left out.
template <typename T, int N>
FOVEA_DEVICE void mask_scores(float (&scores)[N][4], const FlashParams& p, const Sequence& s, int first_query,
                              int first_key, float multiplier, int limit = 8 * N) {
  const int lane = opaque(lane_index()), g = lane / 4, t = lane % 4;
  // Computed again: few tiles are masked, and registers are dear.
  const Interval rows[2] = {keys_of(p, s, first_query + g), keys_of(p, s, first_query + g + 8)};
  const int64_t offset = bias_offset(p, s);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (8 * (n & ~1) >= limit) continue;
    const int column = opaque(first_key + 8 * n + 2 * t);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int key = column + c % 2;
      const Interval& row = rows[c / 2];
      float x = minus_infinity();
      if (key >= row.begin && key < row.end) {
        x = scores[n][c] * multiplier;
        if (p.bias != nullptr) x += bias_at<T>(p, offset, first_query + g + 8 * (c / 2), key);
      }
      scores[n][c] = x;
    }
  }
}

template <int N, typename Kept>
FOVEA_DEVICE void drop(float (&weights)[N][4], const Kept& kept) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) weights[n][c] = kept.kept(n, c) ? weights[n][c] : 0.0f;
  }
}

/// Scores are multiplied by the scale when they are masked or biased, else within the exponent, which is free.
struct ScoreScale {
  bool always_mask;  // there is a bias, or the order of the scores is not that of the products
  float multiplier;  // for mask_scores
  float factor;      // what is left for the exponent

  FOVEA_DEVICE explicit ScoreScale(const FlashParams& p)
      : always_mask(p.bias != nullptr || !(p.scale > 0.0f)),
        multiplier(always_mask ? p.scale * kLog2e : 1.0f),
        factor(always_mask ? 1.0f : p.scale * kLog2e) {}
};

template <typename T, int D>
FOVEA_DEVICE void flash_forward(const FlashParams& p) {
  using Tile = ForwardTile<D>;
  constexpr int R = Tile::kGroups, N = Tile::kKeys / 8;
  const Shared queries_tile = shared_begin();
  const Shared keys_tile = queries_tile + Tile::kQueryBytes;
  const Shared values_tile = keys_tile + Tile::kKeyBytes;
  const Shared scratch = values_tile + Tile::kKeyBytes;

  // Neighbouring blocks work on one head, so that its keys stay in the cache; the longest causal rows go first.
  const int tiles = static_cast<int>(divide_up(p.max_query, Tile::kQueries));
  const int64_t pair = block_index() / tiles;
  const int first_query = (tiles - 1 - static_cast<int>(block_index() % tiles)) * Tile::kQueries;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  if (first_query >= s.queries) return;

  const int lane = lane_index(), g = lane / 4, t = lane % 4;
  const int warp_row = 16 * R * warp_index();
  Span span = empty_span();
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      extend(span, keys_of(p, s, first_query + warp_row + 16 * r + 8 * half + g));
    }
  }
  span = span_of_warp<4>(span);
  const Interval needed = keys_of_block(span, scratch);

  const auto* query = static_cast<const uint16_t*>(p.query) + head_offset(p.query_strides, s, s.query_row);
  const auto* key = static_cast<const uint16_t*>(p.key) + head_offset(p.key_strides, s, s.key_row);
  const auto* value = static_cast<const uint16_t*>(p.value) + head_offset(p.value_strides, s, s.key_row);
  const int64_t key_stride = p.key_strides.row, value_stride = p.value_strides.row;
  const auto load_keys = [&](int first_key) {
    load_tile<D, Tile::kKeys>(keys_tile, key + first_key * key_stride, key_stride, needed.end - first_key, p.head_dim);
    copy_async_commit();
  };

  float output[R][D / 8][4];
  SoftmaxState<R> state;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    clear(output[r]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.maximum[r][half] = minus_infinity();
      state.sum[r][half] = 0.0f;
    }
  }
  const ScoreScale scale(p);

  if (needed.begin < needed.end) {
    load_tile<D, Tile::kQueries>(queries_tile, query + first_query * p.query_strides.row, p.query_strides.row,
                                 s.query_limit - first_query, p.head_dim);
    const int begin = needed.begin / Tile::kKeys * Tile::kKeys;
    load_keys(begin);
    for (int first_key = begin; first_key < needed.end; first_key += Tile::kKeys) {
      const auto await_keys = [&] {
        copy_async_wait<0>();
        block_barrier();  // the keys are here, and nobody needs the values before them
        load_tile<D, Tile::kKeys>(values_tile, value + first_key * value_stride, value_stride, needed.end - first_key,
                                  p.value_dim);
        copy_async_commit();
      };
      const auto await_values = [&] {
        copy_async_wait<0>();
        block_barrier();  // the values are here, and nobody needs these keys
        if (first_key + Tile::kKeys < needed.end) load_keys(first_key + Tile::kKeys);
      };
      if (span.misses(first_key, first_key + Tile::kKeys)) {
        await_keys();
        await_values();
        continue;
      }
      await_keys();
      float scores[R][N][4];
#pragma unroll
      for (int r = 0; r < R; ++r) clear(scores[r]);
      add_scores<T, D>(scores, queries_tile, warp_row, keys_tile, 0);
      await_values();
      if (scale.always_mask || !span.covers(first_key, first_key + Tile::kKeys)) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          mask_scores<T>(scores[r], p, s, first_query + warp_row + 16 * r, first_key, scale.multiplier);
        }
      }
      softmax_step<D>(scores, output, state, scale.factor);
      if (p.drop_threshold != 0) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          KeptByQuery<N> kept;
          kept.draw(p, s, first_query + warp_row + 16 * r, first_key, 8 * N);
          drop(scores[r], kept);
        }
      }
      add_product<T, D>(output, scores, values_tile, 0);
    }
  }

  const Sequence own = again(p, s);
  auto* out = static_cast<uint16_t*>(p.output) + head_offset(p.output_strides, own, own.query_row);
  float* lse = p.lse + head_offset(p.lse_strides, own, own.query_row);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int first_row = first_query + warp_row + 16 * r;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = state.sum[r][half];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      inverse[half] = sum == 0.0f ? 0.0f : p.keep_scale / sum;
      const int row = first_row + 8 * half + g;
      if (t == 0 && row < own.queries) {
        lse[row * p.lse_strides.row] =
            sum == 0.0f ? minus_infinity() : kLn2 * (state.maximum[r][half] * scale.factor + log2_of(sum));
      }
    }
    store_rows<T, D>(output[r], inverse[0], inverse[1], queries_tile, warp_row + 16 * r,
                     out + first_row * p.output_strides.row, p.output_strides.row, own.queries - first_row,
                     p.value_dim);
  }
}

/// For head dimensions up to D, both types: a launch differs in what it runs, not in its shape.
template <int D>
FOVEA_KERNEL(kThreads, 2)
flash_forward_kernel(const FlashParams p) {
  if (p.is_float16) {
    flash_forward<Float16, D>(p);
  } else {
    flash_forward<BFloat16, D>(p);
  }
}

}  // namespace fovea::ops::cuda
