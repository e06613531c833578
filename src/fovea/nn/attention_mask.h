#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/nn/sequence_layout.h"

namespace fovea::nn {

/// Which query may look at which key, as one value that goes through all layers. Restrictions intersect.
///
/// The causal mask is aligned bottom right: query i sees the keys j <= i + Lk - Lq, so that one query with a cache
/// of keys sees all of them. When both sides are packed or padded, Lq and Lk are the layouts' steps.
/// A query that may see no key gets output 0 and gradient 0.
class AttentionMask {
 public:
  SequenceLayout queries;
  SequenceLayout keys;
  bool causal;
  /// d2l's 2-D `valid_lens`: how many keys each query may see, int64 (batch, queries). Undefined: all valid keys.
  at::Tensor valid_lens;

  AttentionMask(SequenceLayout query_layout, SequenceLayout key_layout, bool is_causal = false, at::Tensor lens = {})
      : queries(std::move(query_layout)), keys(std::move(key_layout)), causal(is_causal), valid_lens(std::move(lens)) {}

  /// Self-attention within one layout.
  static AttentionMask self(const SequenceLayout& layout, bool causal = false);
  static AttentionMask cross(const SequenceLayout& queries, const SequenceLayout& keys);
  /// d2l's argument: undefined, (batch) or (batch, queries), for padded queries and keys. Throws Error for another
  /// shape or for a length that is negative. Lengths beyond `num_keys` mean all keys.
  static AttentionMask from_valid_lens(const at::Tensor& valid_lens, int64_t batch, int64_t num_queries,
                                       int64_t num_keys);

  /// bool, broadcastable to (batch, heads, queries, keys); undefined when every query sees every key.
  /// Built when first asked for and kept: all layers of a pass share it.
  const at::Tensor& allowed() const;

 private:
  mutable at::Tensor allowed_;
  mutable bool built_ = false;
};

}  // namespace fovea::nn
