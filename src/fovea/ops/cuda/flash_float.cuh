#pragma once

#include "fovea/ops/cuda/flash_backward.cuh"

/// float32 on the ordinary units: tensor cores would round the factors to 10 bits (TF32), three digits short of what
/// float32 promises. The same roles of blocks as for 16 bits; a block owns 32 rows, a warp eight of them, and each
/// lane one row of the tile that passes by. For correctness at linear memory first; speed is for 16 bits.
namespace fovea::ops::cuda {

inline constexpr int kFloatRows = 32;                    // of every tile
inline constexpr int kFloatOwned = kFloatRows / kWarps;  // rows of a warp
inline constexpr int kFloatChannels = 256 / 32;          // of a lane, at most

/// Rows of `width` floats, a multiple of 8, and 4 more: then 16-byte reads of eight rows meet no bank conflict.
struct FloatTile {
  Shared base;
  int width;
  FOVEA_DEVICE Shared at(int row, int channel) const { return base + 4 * (row * (width + 4) + channel); }
};

FOVEA_HOST_DEVICE int float_width(const FlashParams& p) {
  return static_cast<int>(divide_up(p.head_dim > p.value_dim ? p.head_dim : p.value_dim, 8) * 8);
}
FOVEA_HOST_DEVICE int float_tile_bytes(const FlashParams& p) {
  return 4 * kFloatRows * (float_width(p) + 4);
}
/// Weights of each warp on their way from lanes to all lanes, and the facts of passing queries.
inline constexpr int kFloatScratchBytes = 2 * 4 * kWarps * kFloatOwned * 32 + 4 * 4 * kFloatRows;

inline LaunchShape float_forward_launch(const FlashParams& p) {
  return {divide_up(p.max_query, kFloatRows) * p.batch * p.heads, kThreads,
          3 * float_tile_bytes(p) + kFloatScratchBytes};
}

FOVEA_HOST_DEVICE BackwardBlocks float_backward_blocks(const FlashParams& p) {
  const int64_t pairs = int64_t{p.batch} * p.heads;
  const int64_t key_tiles = divide_up(p.max_key, kFloatRows), query_tiles = divide_up(p.max_query, kFloatRows);
  return {key_tiles * pairs, query_tiles * pairs,
          p.grad_bias == nullptr ? 0 : query_tiles * key_tiles * p.grad_bias_batches * p.grad_bias_heads};
}

inline LaunchShape float_backward_launch(const FlashParams& p) {
  const BackwardBlocks blocks = float_backward_blocks(p);
  return {blocks.keys + blocks.queries + blocks.bias, kThreads, 4 * float_tile_bytes(p) + kFloatScratchBytes};
}

/// Rows [0, 32) of a tile; zeros from row `rows` and channel `channels` on. A barrier must follow.
FOVEA_DEVICE void load_floats(FloatTile tile, const float* from, int64_t stride, int rows, int channels) {
  for (int row = warp_index(); row < kFloatRows; row += kWarps) {
    for (int x = lane_index(); x < tile.width; x += 32) {
      shared_store(tile.at(row, x), row < rows && x < channels ? from[row * stride + x] : 0.0f);
    }
  }
}

FOVEA_DEVICE float as_float(uint32_t bits) {
  return to_float<Float32>(bits);
}

/// sums[r] = row (first + r) of A times row (lane) of B.
FOVEA_DEVICE void float_scores(float (&sums)[kFloatOwned], FloatTile a, int first, FloatTile b) {
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) sums[r] = 0.0f;
  for (int x = 0; x < a.width; x += 4) {
    const Words4 right = shared_load4(b.at(lane_index(), x));
#pragma unroll
    for (int r = 0; r < kFloatOwned; ++r) {
      const Words4 left = shared_load4(a.at(first + r, x));
      sums[r] += as_float(left.x) * as_float(right.x) + as_float(left.y) * as_float(right.y) +
                 as_float(left.z) * as_float(right.z) + as_float(left.w) * as_float(right.w);
    }
  }
}

/// sums[r][c] += weights[r] of all lanes times B, channel (32 c + lane). `scratch` is this warp's.
FOVEA_DEVICE void float_product(float (&sums)[kFloatOwned][kFloatChannels], const float (&weights)[kFloatOwned],
                                FloatTile b, Shared scratch) {
  const int lane = lane_index();
  warp_barrier();
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) shared_store(scratch + 4 * (32 * r + lane), weights[r]);
  warp_barrier();
  for (int row = 0; row < kFloatRows; ++row) {
    float left[kFloatOwned];
#pragma unroll
    for (int r = 0; r < kFloatOwned; ++r) left[r] = shared_load_float(scratch + 4 * (32 * r + row));
#pragma unroll
    for (int c = 0; c < kFloatChannels; ++c) {
      if (32 * c + lane >= b.width) continue;
      const float right = shared_load_float(b.at(row, 32 * c + lane));
#pragma unroll
      for (int r = 0; r < kFloatOwned; ++r) sums[r][c] += left[r] * right;
    }
  }
}

FOVEA_DEVICE void store_floats(const float (&sums)[kFloatOwned][kFloatChannels], const float (&factors)[kFloatOwned],
                               float* to, int64_t stride, int rows, int channels) {
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) {
#pragma unroll
    for (int c = 0; c < kFloatChannels; ++c) {
      const int x = 32 * c + lane_index();
      if (r < rows && x < channels) to[r * stride + x] = sums[r][c] * factors[r];
    }
  }
}

/// Score of a pair in units of log2; -infinity where forbidden.
FOVEA_DEVICE float float_score(const FlashParams& p, const Sequence& s, float product, Interval seen, int query,
                               int key) {
  if (key < seen.begin || key >= seen.end) return minus_infinity();
  float score = product * p.scale * kLog2e;
  if (p.bias != nullptr) score += bias_at<Float32>(p, bias_offset(p, s), query, key);
  return score;
}

FOVEA_DEVICE bool float_kept(const FlashParams& p, const Sequence& s, int query, int key) {
  return (draw_four(p, s, key, query) >> (key % 4) & 1) != 0;
}

FOVEA_DEVICE float* float_row(const void* tensor, const Strides& strides, const Sequence& s, int64_t row) {
  return const_cast<float*>(static_cast<const float*>(tensor)) + head_offset(strides, s, row);
}

FOVEA_DEVICE Span warp_span(const FlashParams& p, const Sequence& s, int first) {
  Span span = empty_span();
  extend(span, keys_of(p, s, first + lane_index() % kFloatOwned));
  return span_of_warp<1>(span);
}

// ---- Forward -----------------------------------------------------------------------------------

FOVEA_DEVICE void flash_float_forward(const FlashParams& p) {
  const int width = float_width(p), bytes = float_tile_bytes(p);
  const FloatTile queries = {shared_begin(), width}, keys = {queries.base + bytes, width},
                  values = {keys.base + bytes, width};
  const Shared all_scratch = values.base + bytes, scratch = all_scratch + 4 * warp_index() * kFloatOwned * 32;
  const int tiles = static_cast<int>(divide_up(p.max_query, kFloatRows));
  const int64_t pair = block_index() / tiles;
  const int first_query = static_cast<int>(block_index() % tiles) * kFloatRows;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  if (first_query >= s.queries) return;
  const int own = kFloatOwned * warp_index(), query = first_query + own, lane = lane_index();
  const Interval needed = keys_of_block(warp_span(p, s, query), all_scratch);

  load_floats(queries, float_row(p.query, p.query_strides, s, s.query_row + first_query), p.query_strides.row,
              s.query_limit - first_query, p.head_dim);
  float output[kFloatOwned][kFloatChannels] = {}, maximum[kFloatOwned], sum[kFloatOwned] = {};
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) maximum[r] = minus_infinity();
  for (int first = needed.begin / kFloatRows * kFloatRows; first < needed.end; first += kFloatRows) {
    block_barrier();
    load_floats(keys, float_row(p.key, p.key_strides, s, s.key_row + first), p.key_strides.row, needed.end - first,
                p.head_dim);
    load_floats(values, float_row(p.value, p.value_strides, s, s.key_row + first), p.value_strides.row,
                needed.end - first, p.value_dim);
    block_barrier();
    float weights[kFloatOwned];
    float_scores(weights, queries, own, keys);
#pragma unroll
    for (int r = 0; r < kFloatOwned; ++r) {
      const float score = float_score(p, s, weights[r], keys_of(p, s, query + r), query + r, first + lane);
      float largest = score;
#pragma unroll
      for (int mask = 1; mask < 32; mask *= 2) largest = larger(largest, shuffle_xor(largest, mask));
      largest = larger(largest, maximum[r]);
      const float base = largest == minus_infinity() ? 0.0f : largest;
      const float correction = exp2_fast(maximum[r] - base), weight = exp2_fast(score - base);
      maximum[r] = largest;
      sum[r] = sum[r] * correction + weight;
#pragma unroll
      for (int c = 0; c < kFloatChannels; ++c) output[r][c] *= correction;
      weights[r] = p.drop_threshold == 0 || float_kept(p, s, query + r, first + lane) ? weight : 0.0f;
    }
    float_product(output, weights, values, scratch);
  }
  float inverse[kFloatOwned];
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) {
#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2) sum[r] += shuffle_xor(sum[r], mask);
    inverse[r] = sum[r] == 0.0f ? 0.0f : p.keep_scale / sum[r];
    if (lane == 0 && query + r < s.queries) {
      p.lse[head_offset(p.lse_strides, s, s.query_row + query + r)] =
          sum[r] == 0.0f ? minus_infinity() : kLn2 * (maximum[r] + log2_of(sum[r]));
    }
  }
  store_floats(output, inverse, float_row(p.output, p.output_strides, s, s.query_row + query), p.output_strides.row,
               s.queries - query, p.value_dim);
}

// ---- Backward ----------------------------------------------------------------------------------

/// From the products of a pair to its dropped weight and its score's gradient.
FOVEA_DEVICE void float_pair_gradient(const FlashParams& p, const Sequence& s, float& weight, float& product,
                                      Interval seen, QueryFacts facts, int query, int key) {
  float score = float_score(p, s, weight, seen, query, key);
  const bool drops = p.drop_threshold != 0;
  weigh(score, product, 1.0f, facts, drops, drops && float_kept(p, s, query, key), p.keep_scale);
  weight = score;
}

FOVEA_DEVICE void flash_float_queries(const FlashParams& p, int64_t block) {
  const int width = float_width(p), bytes = float_tile_bytes(p);
  const FloatTile queries = {shared_begin(), width}, gradients = {queries.base + bytes, width},
                  keys = {gradients.base + bytes, width}, values = {keys.base + bytes, width};
  const Shared all_scratch = values.base + bytes, scratch = all_scratch + 4 * warp_index() * kFloatOwned * 32;
  const int tiles = static_cast<int>(divide_up(p.max_query, kFloatRows));
  const int64_t pair = block / tiles;
  const int first_query = static_cast<int>(block % tiles) * kFloatRows;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  if (first_query >= s.queries) return;
  const int own = kFloatOwned * warp_index(), query = first_query + own, lane = lane_index();
  const Interval needed = keys_of_block(warp_span(p, s, query), all_scratch);
  load_floats(queries, float_row(p.query, p.query_strides, s, s.query_row + first_query), p.query_strides.row,
              s.query_limit - first_query, p.head_dim);
  load_floats(gradients, float_row(p.grad_output, p.grad_output_strides, s, s.query_row + first_query),
              p.grad_output_strides.row, s.query_limit - first_query, p.value_dim);
  float sums[kFloatOwned][kFloatChannels] = {}, scale[kFloatOwned];
  for (int first = needed.begin / kFloatRows * kFloatRows; first < needed.end; first += kFloatRows) {
    block_barrier();
    load_floats(keys, float_row(p.key, p.key_strides, s, s.key_row + first), p.key_strides.row, needed.end - first,
                p.head_dim);
    load_floats(values, float_row(p.value, p.value_strides, s, s.key_row + first), p.value_strides.row,
                needed.end - first, p.value_dim);
    block_barrier();
    float weights[kFloatOwned], products[kFloatOwned];
    float_scores(weights, queries, own, keys);
    float_scores(products, gradients, own, values);
#pragma unroll
    for (int r = 0; r < kFloatOwned; ++r) {
      float_pair_gradient(p, s, weights[r], products[r], keys_of(p, s, query + r), facts_of(p, s, query + r), query + r,
                          first + lane);
    }
    float_product(sums, products, keys, scratch);
  }
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) scale[r] = p.scale;
  store_floats(sums, scale, float_row(p.grad_query, p.grad_query_strides, s, s.query_row + query),
               p.grad_query_strides.row, s.queries - query, p.head_dim);
}

FOVEA_DEVICE void flash_float_keys(const FlashParams& p, int64_t block) {
  const int width = float_width(p), bytes = float_tile_bytes(p);
  const FloatTile keys = {shared_begin(), width}, values = {keys.base + bytes, width},
                  queries = {values.base + bytes, width}, gradients = {queries.base + bytes, width};
  const Shared scratch = gradients.base + bytes + 4 * warp_index() * kFloatOwned * 32;
  const int tiles = static_cast<int>(divide_up(p.max_key, kFloatRows));
  const int64_t pair = block / tiles;
  const int first_key = static_cast<int>(block % tiles) * kFloatRows;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  if (first_key >= s.keys) return;
  const int own = kFloatOwned * warp_index(), key = first_key + own, lane = lane_index();
  load_floats(keys, float_row(p.key, p.key_strides, s, s.key_row + first_key), p.key_strides.row,
              s.key_limit - first_key, p.head_dim);
  load_floats(values, float_row(p.value, p.value_strides, s, s.key_row + first_key), p.value_strides.row,
              s.key_limit - first_key, p.value_dim);
  float grad_key[kFloatOwned][kFloatChannels] = {}, grad_value[kFloatOwned][kFloatChannels] = {};
  float scale[kFloatOwned], one[kFloatOwned];
  const int end = first_key < s.key_limit ? s.query_limit : 0;
  int begin = p.causal ? larger(0, first_key - (s.keys - s.queries)) : 0;
  for (begin = begin / kFloatRows * kFloatRows; begin < end; begin += kFloatRows) {
    block_barrier();
    load_floats(queries, float_row(p.query, p.query_strides, s, s.query_row + begin), p.query_strides.row,
                s.query_limit - begin, p.head_dim);
    load_floats(gradients, float_row(p.grad_output, p.grad_output_strides, s, s.query_row + begin),
                p.grad_output_strides.row, s.query_limit - begin, p.value_dim);
    block_barrier();
    float weights[kFloatOwned], products[kFloatOwned];
    float_scores(weights, keys, own, queries);
    float_scores(products, values, own, gradients);
    const int query = begin + lane;
    const Interval seen = keys_of(p, s, query);
    const QueryFacts facts = facts_of(p, s, query);
#pragma unroll
    for (int r = 0; r < kFloatOwned; ++r) {
      float_pair_gradient(p, s, weights[r], products[r], seen, facts, query, key + r);
    }
    float_product(grad_value, weights, gradients, scratch);
    float_product(grad_key, products, queries, scratch);
  }
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) {
    scale[r] = p.scale;
    one[r] = 1.0f;
  }
  store_floats(grad_key, scale, float_row(p.grad_key, p.grad_key_strides, s, s.key_row + key), p.grad_key_strides.row,
               s.keys - key, p.head_dim);
  store_floats(grad_value, one, float_row(p.grad_value, p.grad_value_strides, s, s.key_row + key),
               p.grad_value_strides.row, s.keys - key, p.value_dim);
}

FOVEA_DEVICE void flash_float_bias(const FlashParams& p, int64_t block) {
  const int width = float_width(p), bytes = float_tile_bytes(p);
  const FloatTile queries = {shared_begin(), width}, gradients = {queries.base + bytes, width},
                  keys = {gradients.base + bytes, width}, values = {keys.base + bytes, width};
  const int64_t key_tiles = divide_up(p.max_key, kFloatRows), query_tiles = divide_up(p.max_query, kFloatRows);
  const int first_key = static_cast<int>(block % key_tiles) * kFloatRows;
  const int first_query = static_cast<int>(block / key_tiles % query_tiles) * kFloatRows;
  const int64_t slice = block / key_tiles / query_tiles;
  const int slice_batch = static_cast<int>(slice / p.grad_bias_heads);
  const int slice_head = static_cast<int>(slice % p.grad_bias_heads);
  const int own = kFloatOwned * warp_index(), query = first_query + own, lane = lane_index();
  float sums[kFloatOwned] = {};
  const int batch_end = p.grad_bias_batches == 1 ? p.batch : slice_batch + 1;
  const int head_end = p.grad_bias_heads == 1 ? p.heads : slice_head + 1;
  for (int batch = slice_batch; batch < batch_end; ++batch) {
    for (int head = slice_head; head < head_end; ++head) {
      const Sequence s = sequence_of(p, batch, head);
      if (first_query >= s.query_limit || first_key >= s.key_limit) continue;  // the same for the whole block
      block_barrier();
      load_floats(queries, float_row(p.query, p.query_strides, s, s.query_row + first_query), p.query_strides.row,
                  s.query_limit - first_query, p.head_dim);
      load_floats(gradients, float_row(p.grad_output, p.grad_output_strides, s, s.query_row + first_query),
                  p.grad_output_strides.row, s.query_limit - first_query, p.value_dim);
      load_floats(keys, float_row(p.key, p.key_strides, s, s.key_row + first_key), p.key_strides.row,
                  s.key_limit - first_key, p.head_dim);
      load_floats(values, float_row(p.value, p.value_strides, s, s.key_row + first_key), p.value_strides.row,
                  s.key_limit - first_key, p.value_dim);
      block_barrier();
      float weights[kFloatOwned], products[kFloatOwned];
      float_scores(weights, queries, own, keys);
      float_scores(products, gradients, own, values);
#pragma unroll
      for (int r = 0; r < kFloatOwned; ++r) {
        float_pair_gradient(p, s, weights[r], products[r], keys_of(p, s, query + r), facts_of(p, s, query + r),
                            query + r, first_key + lane);
        sums[r] += products[r];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kFloatOwned; ++r) {
    if (query + r < p.max_query && first_key + lane < p.max_key) {
      p.grad_bias[(slice * p.max_query + query + r) * p.max_key + first_key + lane] = sums[r];
    }
  }
}

template <bool Backward>
FOVEA_KERNEL(kThreads, 2)
flash_float_kernel(const FlashParams p) {
  if constexpr (!Backward) {
    flash_float_forward(p);
  } else {
    const BackwardBlocks blocks = float_backward_blocks(p);
    const int64_t block = block_index();
    if (block < blocks.keys) {
      flash_float_keys(p, block);
    } else if (block < blocks.keys + blocks.queries) {
      flash_float_queries(p, block - blocks.keys);
    } else {
      flash_float_bias(p, block - blocks.keys - blocks.queries);
    }
  }
}

}  // namespace fovea::ops::cuda
