#pragma once

#include "fovea/ops/cuda/flash_forward.cuh"

/// The gradients. With P = exp(scores - lse), D its dropout, dP = dO V^T and delta = rowsum(dO * O):
///   dV = D(P)^T dO,  dS = P * (D(dP) - delta),  dQ = scale dS K,  dK = scale dS^T Q,  dbias = dS.
/// Every sum is taken by one warp in a fixed order, so that results do not depend on scheduling and no atomics are
/// needed: one role of blocks owns tiles of keys and walks over queries (dK, dV), one owns queries and walks over keys
/// (dQ), one owns tiles of the bias and walks over the sequences and heads that share it. P is computed once in each.
namespace fovea::ops::cuda {

template <int D>
struct BackwardTile {
  static constexpr int kOwned = 16 * kWarps;        // rows of the block: 16 for each warp
  static constexpr int kOther = D == 64 ? 64 : 32;  // rows of the tiles that pass by
  static constexpr int kStages = 2;
  static constexpr int kOwnedBytes = kOwned * kRowBytes<D>;
  static constexpr int kOtherBytes = kOther * kRowBytes<D>;
  static constexpr int kInfoBytes = 4 * kOther * 4;
  static constexpr int kSharedBytes = 2 * kOwnedBytes + 2 * kStages * kOtherBytes + kInfoBytes;
  // Both dK and dV of 16 x 256 channels are more than a warp has registers: they become two roles.
  static constexpr int kKeyRoles = D == 256 ? 2 : 1;
};

/// Blocks of one role, in the order of the kernel: dK and dV, dQ, dbias.
struct BackwardBlocks {
  int64_t keys, queries, bias;
};

template <int D>
FOVEA_HOST_DEVICE BackwardBlocks backward_blocks(const FlashParams& p) {
  const int64_t pairs = int64_t{p.batch} * p.heads;
  const int64_t key_tiles = divide_up(p.max_key, BackwardTile<D>::kOwned);
  const int64_t query_tiles = divide_up(p.max_query, BackwardTile<D>::kOwned);
  return {key_tiles * pairs * BackwardTile<D>::kKeyRoles, query_tiles * pairs,
          p.grad_bias == nullptr
              ? 0
              : query_tiles * divide_up(p.max_key, BackwardTile<D>::kOther) * p.grad_bias_batches * p.grad_bias_heads};
}

template <int D>
LaunchShape backward_launch(const FlashParams& p) {
  const BackwardBlocks blocks = backward_blocks<D>(p);
  return {blocks.keys + blocks.queries + blocks.bias, kThreads, BackwardTile<D>::kSharedBytes};
}

// ---- delta -------------------------------------------------------------------------------------

inline constexpr int kDeltaRows = kThreads / 8;  // of a block: eight lanes for each

inline LaunchShape delta_launch(const FlashParams& p) {
  return {divide_up(p.max_query, kDeltaRows) * p.batch * p.heads, kThreads, 0};
}

template <typename T>
FOVEA_DEVICE float dot_of_words(uint32_t a, uint32_t b) {
  return to_float<T>(a & 0xFFFF) * to_float<T>(b & 0xFFFF) + to_float<T>(a >> 16) * to_float<T>(b >> 16);
}

/// Over the channels that one of `parts` lanes takes; 0 for rows that do not count, which are not read.
template <typename T>
FOVEA_DEVICE float delta_of_lane(const FlashParams& p, const Sequence& s, int row, int part, int parts) {
  using Bits = typename ElementBits<T>::Type;
  constexpr int kChunk = 16 / sizeof(Bits);
  float sum = 0.0f;
  if (row >= s.query_limit) return sum;
  const auto* gradient =
      static_cast<const Bits*>(p.grad_output) + head_offset(p.grad_output_strides, s, s.query_row + row);
  const auto* output = static_cast<const Bits*>(p.output) + head_offset(p.output_strides, s, s.query_row + row);
  if constexpr (kChunk == 4) {  // whose rows need not be aligned
    for (int x = part; x < p.value_dim; x += parts) sum += to_float<T>(gradient[x]) * to_float<T>(output[x]);
  } else {
    for (int chunk = part; kChunk * chunk < p.value_dim; chunk += parts) {
      const Words4 a = *reinterpret_cast<const Words4*>(gradient + kChunk * chunk);
      const Words4 b = *reinterpret_cast<const Words4*>(output + kChunk * chunk);
      sum +=
          dot_of_words<T>(a.x, b.x) + dot_of_words<T>(a.y, b.y) + dot_of_words<T>(a.z, b.z) + dot_of_words<T>(a.w, b.w);
    }
  }
  return sum;
}

template <typename T, int Rows>
FOVEA_DEVICE void flash_delta(const FlashParams& p) {
  constexpr int kLanes = kThreads / Rows;
  const int tiles = static_cast<int>(divide_up(p.max_query, Rows));
  const int64_t pair = block_index() / tiles;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  const int row = static_cast<int>(block_index() % tiles) * Rows + thread_index() / kLanes;
  float sum = delta_of_lane<T>(p, s, row, thread_index() % kLanes, kLanes);
#pragma unroll
  for (int mask = 1; mask < kLanes; mask *= 2) sum += shuffle_xor(sum, mask);
  if (thread_index() % kLanes == 0 && row < s.queries) {
    p.delta[head_offset(p.lse_strides, s, s.query_row + row)] = sum;
  }
}

template <int Rows>
FOVEA_KERNEL(kThreads, 4)
flash_delta_kernel(const FlashParams p) {
  if (p.is_float32) {
    flash_delta<Float32, Rows>(p);
  } else if (p.is_float16) {
    flash_delta<Float16, Rows>(p);
  } else {
    flash_delta<BFloat16, Rows>(p);
  }
}

// ---- From products to weights and their gradients ----------------------------------------------

/// What a query's row contributes: lse in units of log2 (infinity for rows that see nothing, so that their weights
/// come out as 0) and delta.
struct QueryFacts {
  float lse, delta;
};

FOVEA_DEVICE QueryFacts facts_of(const FlashParams& p, const Sequence& s, int query) {
  if (query >= s.query_limit) return {-minus_infinity(), 0.0f};
  const int64_t at = head_offset(p.lse_strides, s, s.query_row + query);
  const float lse = p.lse[at];
  return {lse == minus_infinity() ? -minus_infinity() : lse * kLog2e, p.delta[at]};
}

/// One element: score and product dO V^T become the dropped weight and the score's gradient. Where the weight is 0,
/// so is the gradient, whatever a masked key holds.
FOVEA_DEVICE void weigh(float& score, float& product, float factor, QueryFacts query, bool drops, bool kept,
                        float keep_scale) {
  const float weight = exp2_fast(score * factor - query.lse);
  float dropped = weight;
  if (drops) {
    dropped = kept ? weight * keep_scale : 0.0f;
    product = kept ? product * keep_scale : 0.0f;
  }
  product = weight == 0.0f ? 0.0f : weight * (product - query.delta);
  score = dropped;
}

/// 16 queries x 8 N keys. Pairs of groups of eight from key `limit` on are left out.
template <typename T, int N>
FOVEA_DEVICE void weigh_by_query(float (&scores)[N][4], float (&products)[N][4], const FlashParams& p,
                                 const Sequence& s, int first_query, int first_key, const QueryFacts (&facts)[2],
                                 bool masked, const ScoreScale& scale, int limit = 8 * N) {
  if (masked) mask_scores<T>(scores, p, s, first_query, first_key, scale.multiplier, limit);
  const bool drops = p.drop_threshold != 0;
  KeptByQuery<N> kept = {};
  if (drops) kept.draw(p, s, first_query, first_key, limit);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (8 * (n & ~1) >= limit) continue;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      weigh(scores[n][c], products[n][c], scale.factor, facts[c / 2], drops, kept.kept(n, c), p.keep_scale);
    }
  }
}

/// Where the facts of the queries that pass by lie in shared memory: lse, delta, begin, end; each `count` words.
struct QueryInfo {
  Shared base;
  int count;
  FOVEA_DEVICE Shared at(int what, int query) const { return base + 4 * (what * count + query); }
  FOVEA_DEVICE void store(int query, QueryFacts facts, Interval keys) const {
    shared_store(at(0, query), facts.lse);
    shared_store(at(1, query), facts.delta);
    shared_store(at(2, query), keys.begin);
    shared_store(at(3, query), keys.end);
  }
};

/// 16 keys x 8 N queries, whose facts start at `info_row`; those from `limit` on are left out.
template <typename T, int N>
FOVEA_DEVICE void weigh_by_key(float (&scores)[N][4], float (&products)[N][4], const FlashParams& p, const Sequence& s,
                               int first_query, int first_key, QueryInfo info, int info_row, bool masked,
                               const ScoreScale& scale, int limit = 8 * N) {
  const int lane = opaque(lane_index()), g = lane / 4, t = lane % 4;
  if (masked) {
    const int64_t offset = bias_offset(p, s);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (8 * (n & ~1) >= limit) continue;
      const int column = opaque(8 * n + 2 * t);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int key = first_key + g + 8 * (c / 2);
        const int begin = shared_load_int(info.at(2, info_row + column + c % 2));
        const int end = shared_load_int(info.at(3, info_row + column + c % 2));
        float x = minus_infinity();
        if (key >= begin && key < end) {
          x = scores[n][c] * scale.multiplier;
          if (p.bias != nullptr) x += bias_at<T>(p, offset, first_query + column + c % 2, key);
        }
        scores[n][c] = x;
      }
    }
  }
  const bool drops = p.drop_threshold != 0;
  KeptByKey<N> kept = {};
  if (drops) kept.draw(p, s, first_query, first_key, limit);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (8 * (n & ~1) >= limit) continue;
    const Float2 lse = shared_load_float2(info.at(0, info_row + 8 * n + 2 * t));
    const Float2 delta = shared_load_float2(info.at(1, info_row + 8 * n + 2 * t));
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const QueryFacts query = c % 2 == 0 ? QueryFacts{lse.x, delta.x} : QueryFacts{lse.y, delta.y};
      weigh(scores[n][c], products[n][c], scale.factor, query, drops, kept.kept(n, c), p.keep_scale);
    }
  }
}

// ---- dK and dV ---------------------------------------------------------------------------------

template <typename T, int D, bool WantKey, bool WantValue>
FOVEA_DEVICE void flash_backward_keys(const FlashParams& p, int64_t block) {
  using Tile = BackwardTile<D>;
  constexpr int N = Tile::kOther / 8;
  const Shared keys_tile = shared_begin();
  const Shared values_tile = keys_tile + Tile::kOwnedBytes;
  const Shared others = values_tile + Tile::kOwnedBytes;
  const QueryInfo info = {others + 2 * Tile::kStages * Tile::kOtherBytes, Tile::kOther};

  const int tiles = static_cast<int>(divide_up(p.max_key, Tile::kOwned));
  const int64_t pair = block / tiles;
  const int first_key = static_cast<int>(block % tiles) * Tile::kOwned;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  if (first_key >= s.keys) return;

  // The queries that may see any of these keys, by what needs no look at single queries.
  const int shift = s.keys - s.queries;
  int begin = 0, end = first_key < s.key_limit ? s.query_limit : 0;
  if (p.causal) begin = larger(begin, first_key - shift);
  if (p.window_right >= 0) begin = larger(begin, first_key - shift - p.window_right);
  if (p.window_left >= 0) end = smaller(end, first_key + Tile::kOwned - shift + p.window_left);
  begin = begin / Tile::kOther * Tile::kOther;

  const auto* query = static_cast<const uint16_t*>(p.query) + head_offset(p.query_strides, s, s.query_row);
  const auto* gradient =
      static_cast<const uint16_t*>(p.grad_output) + head_offset(p.grad_output_strides, s, s.query_row);
  const auto load_queries = [&](int first, int stage) {
    const Shared to = others + 2 * stage * Tile::kOtherBytes;
    load_tile<D, Tile::kOther>(to, query + first * p.query_strides.row, p.query_strides.row, s.query_limit - first,
                               p.head_dim);
    load_tile<D, Tile::kOther>(to + Tile::kOtherBytes, gradient + first * p.grad_output_strides.row,
                               p.grad_output_strides.row, s.query_limit - first, p.value_dim);
  };
  QueryFacts facts = {};  // read early, stored when the tile before is done
  const auto look_up = [&](int first) {
    if (thread_index() < Tile::kOther) facts = facts_of(p, s, first + thread_index());
  };

  const int warp_key = first_key + 16 * warp_index();
  float grad_key[1][WantKey ? D / 8 : 1][4], grad_value[1][WantValue ? D / 8 : 1][4];
  clear(grad_key[0]);
  clear(grad_value[0]);
  const ScoreScale scale(p);

  if (begin < end) {
    load_tile<D, Tile::kOwned>(
        keys_tile, static_cast<const uint16_t*>(p.key) + head_offset(p.key_strides, s, s.key_row + first_key),
        p.key_strides.row, s.key_limit - first_key, p.head_dim);
    load_tile<D, Tile::kOwned>(
        values_tile, static_cast<const uint16_t*>(p.value) + head_offset(p.value_strides, s, s.key_row + first_key),
        p.value_strides.row, s.key_limit - first_key, p.value_dim);
    load_queries(begin, 0);
    copy_async_commit();
    look_up(begin);
    int stage = 0;
    for (int first = begin; first < end; first += Tile::kOther) {
      if (thread_index() < Tile::kOther) info.store(thread_index(), facts, keys_of(p, s, first + thread_index()));
      if (first + Tile::kOther < end) {
        load_queries(first + Tile::kOther, 1 - stage);
        look_up(first + Tile::kOther);
      }
      copy_async_commit();
      copy_async_wait<1>();
      block_barrier();
      Span span = empty_span();
#pragma unroll
      for (int i = 0; i < (Tile::kOther + 31) / 32; ++i) {
        const int row = 32 * i + lane_index();
        extend(span, {shared_load_int(info.at(2, row)), shared_load_int(info.at(3, row))});
      }
      span = span_of_warp<1>(span);
      if (!span.misses(warp_key, warp_key + 16)) {
        const Shared queries_tile = others + 2 * stage * Tile::kOtherBytes;
        float scores[1][N][4], products[1][N][4];
        clear(scores[0]);
        clear(products[0]);
        add_scores<T, D>(scores, keys_tile, 16 * warp_index(), queries_tile, 0);
        add_scores<T, D>(products, values_tile, 16 * warp_index(), queries_tile + Tile::kOtherBytes, 0);
        weigh_by_key<T>(scores[0], products[0], p, s, first, warp_key, info, 0,
                        scale.always_mask || !span.covers(warp_key, warp_key + 16), scale);
        if constexpr (WantValue) add_product<T, D>(grad_value, scores, queries_tile + Tile::kOtherBytes, 0);
        if constexpr (WantKey) add_product<T, D>(grad_key, products, queries_tile, 0);
      }
      block_barrier();
      stage = 1 - stage;
    }
    copy_async_wait<0>();
  }

  const Sequence own = again(p, s);
  const int rows = own.keys - warp_key;
  if constexpr (WantKey) {
    store_rows<T, D>(grad_key[0], p.scale, p.scale, keys_tile, 16 * warp_index(),
                     static_cast<uint16_t*>(p.grad_key) + head_offset(p.grad_key_strides, own, own.key_row + warp_key),
                     p.grad_key_strides.row, rows, p.head_dim);
  }
  if constexpr (WantValue) {
    store_rows<T, D>(
        grad_value[0], 1.0f, 1.0f, values_tile, 16 * warp_index(),
        static_cast<uint16_t*>(p.grad_value) + head_offset(p.grad_value_strides, own, own.key_row + warp_key),
        p.grad_value_strides.row, rows, p.value_dim);
  }
}

// ---- dQ ----------------------------------------------------------------------------------------

template <typename T, int D>
FOVEA_DEVICE void flash_backward_queries(const FlashParams& p, int64_t block) {
  using Tile = BackwardTile<D>;
  constexpr int N = Tile::kOther / 8;
  const Shared queries_tile = shared_begin();
  const Shared gradients_tile = queries_tile + Tile::kOwnedBytes;
  const Shared others = gradients_tile + Tile::kOwnedBytes;
  const Shared scratch = others + 2 * Tile::kStages * Tile::kOtherBytes;

  const int tiles = static_cast<int>(divide_up(p.max_query, Tile::kOwned));
  const int64_t pair = block / tiles;
  const int first_query = (tiles - 1 - static_cast<int>(block % tiles)) * Tile::kOwned;
  const Sequence s = sequence_of(p, static_cast<int>(pair / p.heads), static_cast<int>(pair % p.heads));
  if (first_query >= s.queries) return;

  const int warp_query = first_query + 16 * warp_index(), g = lane_index() / 4;
  Span span = empty_span();
  extend(span, keys_of(p, s, warp_query + g));
  extend(span, keys_of(p, s, warp_query + g + 8));
  span = span_of_warp<4>(span);
  const Interval needed = keys_of_block(span, scratch);

  const auto* key = static_cast<const uint16_t*>(p.key) + head_offset(p.key_strides, s, s.key_row);
  const auto* value = static_cast<const uint16_t*>(p.value) + head_offset(p.value_strides, s, s.key_row);
  const auto load_keys = [&](int first, int stage) {
    const Shared to = others + 2 * stage * Tile::kOtherBytes;
    load_tile<D, Tile::kOther>(to, key + first * p.key_strides.row, p.key_strides.row, needed.end - first, p.head_dim);
    load_tile<D, Tile::kOther>(to + Tile::kOtherBytes, value + first * p.value_strides.row, p.value_strides.row,
                               needed.end - first, p.value_dim);
  };

  float grad_query[1][D / 8][4];
  clear(grad_query[0]);
  const ScoreScale scale(p);

  if (needed.begin < needed.end) {
    load_tile<D, Tile::kOwned>(
        queries_tile,
        static_cast<const uint16_t*>(p.query) + head_offset(p.query_strides, s, s.query_row + first_query),
        p.query_strides.row, s.query_limit - first_query, p.head_dim);
    load_tile<D, Tile::kOwned>(
        gradients_tile,
        static_cast<const uint16_t*>(p.grad_output) + head_offset(p.grad_output_strides, s, s.query_row + first_query),
        p.grad_output_strides.row, s.query_limit - first_query, p.value_dim);
    const int begin = needed.begin / Tile::kOther * Tile::kOther;
    load_keys(begin, 0);
    copy_async_commit();
    const QueryFacts facts[2] = {facts_of(p, s, warp_query + g), facts_of(p, s, warp_query + g + 8)};
    int stage = 0;
    for (int first = begin; first < needed.end; first += Tile::kOther) {
      if (first + Tile::kOther < needed.end) load_keys(first + Tile::kOther, 1 - stage);
      copy_async_commit();
      copy_async_wait<1>();
      block_barrier();
      if (!span.misses(first, first + Tile::kOther)) {
        const Shared keys_tile = others + 2 * stage * Tile::kOtherBytes;
        float scores[1][N][4], products[1][N][4];
        clear(scores[0]);
        clear(products[0]);
        add_scores<T, D>(scores, queries_tile, 16 * warp_index(), keys_tile, 0);
        add_scores<T, D>(products, gradients_tile, 16 * warp_index(), keys_tile + Tile::kOtherBytes, 0);
        weigh_by_query<T>(scores[0], products[0], p, s, warp_query, first, facts,
                          scale.always_mask || !span.covers(first, first + Tile::kOther), scale);
        add_product<T, D>(grad_query, products, keys_tile, 0);
      }
      block_barrier();
      stage = 1 - stage;
    }
    copy_async_wait<0>();
  }

  const Sequence own = again(p, s);
  store_rows<T, D>(
      grad_query[0], p.scale, p.scale, queries_tile, 16 * warp_index(),
      static_cast<uint16_t*>(p.grad_query) + head_offset(p.grad_query_strides, own, own.query_row + warp_query),
      p.grad_query_strides.row, own.queries - warp_query, p.head_dim);
}

// ---- dbias -------------------------------------------------------------------------------------

template <typename T, int D>
FOVEA_DEVICE void flash_backward_bias(const FlashParams& p, int64_t block) {
  using Tile = BackwardTile<D>;
  constexpr int N = Tile::kOther / 8;
  const Shared queries_tile = shared_begin();
  const Shared gradients_tile = queries_tile + Tile::kOwnedBytes;
  const Shared keys_tile = gradients_tile + Tile::kOwnedBytes;
  const Shared values_tile = keys_tile + Tile::kOtherBytes;

  const int64_t key_tiles = divide_up(p.max_key, Tile::kOther), query_tiles = divide_up(p.max_query, Tile::kOwned);
  const int first_key = static_cast<int>(block % key_tiles) * Tile::kOther;
  const int first_query = static_cast<int>(block / key_tiles % query_tiles) * Tile::kOwned;
  const int64_t slice = block / key_tiles / query_tiles;
  const int slice_batch = static_cast<int>(slice / p.grad_bias_heads);
  const int slice_head = static_cast<int>(slice % p.grad_bias_heads);
  const int warp_query = first_query + 16 * warp_index(), g = lane_index() / 4, t = lane_index() % 4;

  float sums[N][4];
  clear(sums);
  const ScoreScale scale(p);
  // A dimension of size 1 is shared by all.
  const int batch_end = p.grad_bias_batches == 1 ? p.batch : slice_batch + 1;
  const int head_end = p.grad_bias_heads == 1 ? p.heads : slice_head + 1;
  for (int batch = slice_batch; batch < batch_end; ++batch) {
    for (int head = slice_head; head < head_end; ++head) {
      const Sequence s = sequence_of(p, batch, head);
      if (first_query >= s.query_limit || first_key >= s.key_limit) continue;  // the same for the whole block
      Span span = empty_span();
      extend(span, keys_of(p, s, warp_query + g));
      extend(span, keys_of(p, s, warp_query + g + 8));
      span = span_of_warp<4>(span);
      block_barrier();  // nobody needs the tiles of the head before
      load_tile<D, Tile::kOwned>(
          queries_tile,
          static_cast<const uint16_t*>(p.query) + head_offset(p.query_strides, s, s.query_row + first_query),
          p.query_strides.row, s.query_limit - first_query, p.head_dim);
      load_tile<D, Tile::kOwned>(gradients_tile,
                                 static_cast<const uint16_t*>(p.grad_output) +
                                     head_offset(p.grad_output_strides, s, s.query_row + first_query),
                                 p.grad_output_strides.row, s.query_limit - first_query, p.value_dim);
      load_tile<D, Tile::kOther>(
          keys_tile, static_cast<const uint16_t*>(p.key) + head_offset(p.key_strides, s, s.key_row + first_key),
          p.key_strides.row, s.key_limit - first_key, p.head_dim);
      load_tile<D, Tile::kOther>(
          values_tile, static_cast<const uint16_t*>(p.value) + head_offset(p.value_strides, s, s.key_row + first_key),
          p.value_strides.row, s.key_limit - first_key, p.value_dim);
      copy_async_commit();
      copy_async_wait<0>();
      block_barrier();
      if (span.misses(first_key, first_key + Tile::kOther)) continue;
      const QueryFacts facts[2] = {facts_of(p, s, warp_query + g), facts_of(p, s, warp_query + g + 8)};
      float scores[1][N][4], products[1][N][4];
      clear(scores[0]);
      clear(products[0]);
      add_scores<T, D>(scores, queries_tile, 16 * warp_index(), keys_tile, 0);
      add_scores<T, D>(products, gradients_tile, 16 * warp_index(), values_tile, 0);
      weigh_by_query<T>(scores[0], products[0], p, s, warp_query, first_key, facts, true, scale);
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[n][c] += products[0][n][c];
      }
    }
  }

  float* to = p.grad_bias + slice * p.max_query * p.max_key;
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int query = warp_query + g + 8 * (c / 2), key = first_key + 8 * n + 2 * t + c % 2;
      if (query < p.max_query && key < p.max_key) to[int64_t{query} * p.max_key + key] = sums[n][c];
    }
  }
}

// ---- The kernel --------------------------------------------------------------------------------

template <typename T, int D>
FOVEA_DEVICE void flash_backward(const FlashParams& p) {
  const BackwardBlocks blocks = backward_blocks<D>(p);
  int64_t block = block_index();
  if (block < blocks.keys) {
    if constexpr (BackwardTile<D>::kKeyRoles == 1) {
      flash_backward_keys<T, D, true, true>(p, block);
    } else if (block < blocks.keys / 2) {
      flash_backward_keys<T, D, true, false>(p, block);
    } else {
      flash_backward_keys<T, D, false, true>(p, block - blocks.keys / 2);
    }
    return;
  }
  block -= blocks.keys;
  if (block < blocks.queries) {
    flash_backward_queries<T, D>(p, block);
  } else {
    flash_backward_bias<T, D>(p, block - blocks.queries);
  }
}

template <int D>
FOVEA_KERNEL(kThreads, 2)
flash_backward_kernel(const FlashParams p) {
  if (p.is_float16) {
    flash_backward<Float16, D>(p);
  } else {
    flash_backward<BFloat16, D>(p);
  }
}

}  // namespace fovea::ops::cuda
