#pragma once

#include <cstdint>

#include "fovea/ops/philox.h"

/// Attention of one head of one sequence, on raw pointers: what the CPU op cuts its work into. No torch here.
namespace fovea::ops {

/// Which weights of one head fall: those that ops::dropout drops.
struct AttentionDropout : DropoutDraw {
  uint32_t sequence = 0, head = 0;
};

/// Strides are between rows, in elements; the elements of a row are contiguous.
template <typename T>
struct AttentionHead {
  const T *query = nullptr, *key = nullptr, *value = nullptr;
  int64_t query_stride = 0, key_stride = 0, value_stride = 0;
  int64_t queries = 0, keys = 0, head_dim = 0, value_dim = 0;
  double scale = 1;

  // Query i sees the keys from max(0, i + first) to min(keys, i + last + 1, row_lens[i]), without the last.
  int64_t first = -(int64_t{1} << 40), last = int64_t{1} << 40;
  const int64_t* row_lens = nullptr;
  const T* bias = nullptr;  // added to the scaled scores
  int64_t bias_row_stride = 0, bias_column_stride = 0;
  AttentionDropout dropout;
  // Whether to write results past the caches, which would not hold them anyway: that saves reading the lines first.
  bool stream = false;

  // Written by forward, read by backward.
  T* output = nullptr;
  int64_t output_stride = 0;
  T* lse = nullptr;
  int64_t lse_stride = 0;

  const T* grad_output = nullptr;
  T *grad_key = nullptr, *grad_value = nullptr;
  int64_t grad_output_stride = 0, grad_key_stride = 0, grad_value_stride = 0;
  T* grad_bias = nullptr;  // (queries, keys), contiguous rows; added to. May be null.
  int64_t grad_bias_stride = 0;

  int64_t row_begin(int64_t i) const { return i + first > 0 ? i + first : 0; }
  int64_t row_end(int64_t i) const {
    int64_t end = i + last + 1 < keys ? i + last + 1 : keys;
    if (row_lens != nullptr && row_lens[i] < end) end = row_lens[i];
    return end > 0 ? end : 0;
  }
};

/// Queries are worked on in blocks of this many: one call of attention_forward takes one block or more.
inline constexpr int64_t kAttentionQueryBlock = 192;
/// Up to this many keys make one tile: rows of weights are then whole, in one pass and a little more exact.
inline constexpr int64_t kAttentionWholeRow = 256;
/// More keys are worked on in tiles, of sizes that keep a tile's keys and values in the L2 cache.
inline int64_t attention_tile(int64_t head_dim, int64_t value_dim, int64_t keys, int64_t narrow_tile) {
  if (keys <= kAttentionWholeRow) return keys > 4 ? (keys + 3) / 4 * 4 : 4;
  const int64_t widest = head_dim > value_dim ? head_dim : value_dim;
  return widest <= 64 ? narrow_tile : widest <= 128 ? 96 : 64;
}
inline int64_t attention_forward_tile(int64_t head_dim, int64_t value_dim, int64_t keys) {
  return attention_tile(head_dim, value_dim, keys, 192);
}
/// A task of backward is a range of whole tiles.
inline int64_t attention_backward_tile(int64_t head_dim, int64_t value_dim, int64_t keys) {
  return attention_tile(head_dim, value_dim, keys, 128);
}
/// It takes the queries in tiles of so many: one when that holds all, else five panels of 12.
inline constexpr int64_t kAttentionBackwardRows = 64;
inline int64_t attention_backward_rows(int64_t queries) {
  return queries <= 64 ? queries : 60;
}
/// The length of a row of grad_query sums: head_dim rounded up so that any vector fits.
inline int64_t attention_padded_dim(int64_t dim) {
  return (dim + 15) / 16 * 16;
}

/// Elements of scratch, aligned to 64 bytes, that the calls below need.
int64_t attention_forward_scratch(const AttentionHead<float>& head);
int64_t attention_backward_scratch(const AttentionHead<float>& head);
inline int64_t attention_forward_scratch(const AttentionHead<double>& head) {
  return head.keys;
}
inline int64_t attention_backward_scratch(const AttentionHead<double>& head) {
  return 2 * head.keys;
}

/// Writes output and lse of the queries [begin, end).
void attention_forward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* scratch);

/// Writes grad_key and grad_value of the keys [begin, end) and *adds* their part to grad_query_sum, which has
/// `queries` rows of attention_padded_dim(head_dim), without the factor `scale`.
void attention_backward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* grad_query_sum,
                        float* scratch);

/// out = scale * (the sum of `parts` such sums, `part_stride` apart), for all queries.
void attention_finish_query(const float* sums, int64_t parts, int64_t part_stride, const AttentionHead<float>& head,
                            float* out, int64_t out_stride);

/// Heads of few queries whose scores fit the L1 cache have a path of their own: whole in one call, nothing packed.
/// 64 queries of 64 keys, or one query (decoding) of 320.
inline constexpr int64_t kAttentionShortQueries = 64, kAttentionShortScores = 64 * 80;
/// Its scores lie as [key][query], keys at this distance: an odd number of cache lines, so that they do not fall on one
/// another.
inline int64_t attention_short_row(int64_t queries) {
  return ((queries + 15) / 16 | 1) * 16;
}
inline bool attention_is_short(const AttentionHead<float>& h) {
  // Rows of whole vectors, on any target.
  return h.queries <= kAttentionShortQueries && h.keys * attention_short_row(h.queries) <= kAttentionShortScores &&
         h.head_dim % 16 == 0 && h.value_dim % 16 == 0 && h.bias == nullptr;
}
void attention_short_forward(const AttentionHead<float>& head);
/// Writes grad_key and grad_value of `keys` rows and grad_query of `queries` rows, `stride` apart.
void attention_short_backward(const AttentionHead<float>& head, float* grad_query, int64_t stride);

/// double: plain loops, for tests.
inline bool attention_is_short(const AttentionHead<double>&) {
  return false;
}
inline void attention_short_forward(const AttentionHead<double>&) {}
inline void attention_short_backward(const AttentionHead<double>&, double*, int64_t) {}
void attention_forward(const AttentionHead<double>& head, int64_t begin, int64_t end, double* scratch);
void attention_backward(const AttentionHead<double>& head, int64_t begin, int64_t end, double* grad_query_sum,
                        double* scratch);
void attention_finish_query(const double* sums, int64_t parts, int64_t part_stride, const AttentionHead<double>& head,
                            double* out, int64_t out_stride);

}  // namespace fovea::ops
