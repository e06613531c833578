#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/nn/positions.h"
#include "fovea/nn/sequence_layout.h"
#include "fovea/ops/flash_attention.h"

namespace fovea::nn {

/// Which query may look at which key, and what is added to their scores, as one value that goes through all layers of a
/// pass. Restrictions intersect, biases add up. A query that may see no key gets output 0 and gradient 0.
///
/// Query i stands at position p = i + Lk - Lq (aligned bottom right), so that queries after a cache of keys stand where
/// they belong and one query with a cache sees all. Lq and Lk are the layouts' steps, padded and packed alike. Causal:
/// the query sees the keys j <= p.
class AttentionMask {
 public:
  /// `valid_lens`: d2l's 2-D form, how many keys each query may see, int64 (batch, queries). Undefined: all valid keys.
  AttentionMask(SequenceLayout queries, SequenceLayout keys, bool causal = false, at::Tensor valid_lens = {})
      : queries_(std::move(queries)), keys_(std::move(keys)), causal_(causal), valid_lens_(std::move(valid_lens)) {}

  /// Self-attention within one layout.
  static AttentionMask self(const SequenceLayout& layout, bool causal = false);
  static AttentionMask cross(const SequenceLayout& queries, const SequenceLayout& keys);
  /// d2l's argument: undefined, (batch) or (batch, queries), for padded queries and keys. Throws Error for another
  /// shape or for a length that is negative. Lengths beyond `num_keys` mean all keys.
  static AttentionMask from_valid_lens(const at::Tensor& valid_lens, int64_t batch, int64_t num_queries,
                                       int64_t num_keys);

  /// Copies with one thing more.
  ///
  /// Window: a query sees the keys p - left <= j <= p + right; -1 means no bound.
  AttentionMask with_window(int64_t left, int64_t right) const;
  /// `bias` is added to the scaled scores of every attention: floating point, broadcastable to (batch, heads, queries,
  /// keys), in rows of steps whichever the layout. -inf forbids. Differentiable, for which alone the flash path's
  /// memory grows with queries x keys.
  AttentionMask with_bias(const at::Tensor& bias) const;
  /// The edges of a graph: bool (batch, queries, keys) or (1, queries, keys), true where a query may look at a key. In
  /// rows of steps whichever the layout; see edges_of for lists of edges.
  AttentionMask with_edges(const at::Tensor& edges) const;
  /// Rotary positions: multi-head and dot-product attention turn queries and keys by their positions.
  AttentionMask with_rotary() const;
  /// ALiBi: the bias -slope * |p - j|, for attention of so many heads.
  AttentionMask with_alibi(int64_t num_heads) const;
  /// The same for the first queries of each sequence alone, of which each sequence must have so many. Throws Error
  /// where their positions matter (causal, window, rotary): they would stand at the last keys.
  AttentionMask first_queries(int64_t count) const;

  const SequenceLayout& queries() const { return queries_; }
  const SequenceLayout& keys() const { return keys_; }
  bool causal() const { return causal_; }
  const at::Tensor& valid_lens() const { return valid_lens_; }
  bool rotary() const { return rotary_; }

  // What follows is built when first asked for and kept: all layers of a pass share it.

  /// The position of each key less that of each query: int64 (queries, keys).
  at::Tensor distances() const;
  /// bool, broadcastable to (batch, heads, queries, keys); undefined when every query sees every key.
  const at::Tensor& allowed() const;
  /// What is added to the scores, broadcastable to (batch, heads, queries, keys); undefined when nothing is.
  const at::Tensor& bias() const;
  /// Queries and keys turned by their positions, or as they are. (batch, heads, steps, head_dim), or packed (total,
  /// heads, head_dim).
  at::Tensor turn_queries(const at::Tensor& queries) const;
  at::Tensor turn_keys(const at::Tensor& keys) const;

  /// Whether the op can take packed queries and keys under this mask. Not so for 2-D valid_lens, nor where the position
  /// of a query matters and both sides differ in length: the op aligns each sequence by its own lengths.
  bool fits_packed() const;
  /// The mask as the op takes it, for queries that are padded (batch, heads, queries, head_dim) or packed (total,
  /// heads, head_dim). Edges become a bias of -inf in the dtype of the queries: one number for each pair of a sequence
  /// that all heads and layers share, where the plain path keeps several for each pair and head.
  ops::FlashAttentionArguments flash_arguments(const at::Tensor& queries) const;

 private:
  struct Built {
    bool allowed_done = false, bias_done = false;
    at::Tensor allowed, bias, flash_bias;
    Rotation padded_queries, padded_keys, packed_queries, packed_keys;
  };

  AttentionMask changed() const;       // a copy in which nothing is built
  at::Tensor query_positions() const;  // p of each row: int64 (queries)
  int64_t right_bound() const { return causal_ ? 0 : window_right_; }
  const at::Tensor& flash_bias(at::ScalarType type) const;
  const Rotation& rotation(const at::Tensor& heads, bool of_queries) const;

  SequenceLayout queries_, keys_;
  bool causal_;
  at::Tensor valid_lens_;
  int64_t window_left_ = -1, window_right_ = -1;
  at::Tensor given_bias_;  // 4-D
  at::Tensor edges_;       // (batch or 1, 1, queries, keys)
  bool rotary_ = false;
  int64_t alibi_heads_ = 0;
  mutable Built built_;
};

/// A list of edges as AttentionMask::with_edges takes them: bool (batch, query steps, key steps). `list`: int64 (2, E),
/// in each column the number of a query and of a key, counted through the valid tokens of the whole batch as in packed
/// tensors. Throws Error for another shape, for a token that does not exist, and for an edge from one sequence to
/// another. The lengths must be known on the host.
at::Tensor edges_of(const at::Tensor& list, const SequenceLayout& queries, const SequenceLayout& keys);

}  // namespace fovea::nn
