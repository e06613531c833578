// Masks with any mix of restrictions, beside what they mean, said cell by cell.
#pragma once

#include "fovea/nn/attention_mask.h"
#include "tests/test.h"

/// One mix: a bit for each restriction.
struct Restrictions {
  static constexpr int kCausal = 1, kWindow = 2, kBias = 4, kEdges = 8, kRagged = 16, kAll = 32;

  int bits;
  int64_t queries, keys, heads;
  std::vector<int64_t> query_lengths, key_lengths;
  int64_t left = 1, right = 2;
  at::Tensor bias;   // (batch, heads, queries, keys), one cell of it -inf
  at::Tensor edges;  // (batch, queries, keys), one row of it empty

  /// Draws bias and edges. Ragged: one sequence of each kind is empty, one has a single token, one is full.
  Restrictions(int which, int64_t num_queries, int64_t num_keys, int64_t num_heads)
      : bits(which), queries(num_queries), keys(num_keys), heads(num_heads) {
    const bool ragged = has(kRagged);
    query_lengths = ragged ? std::vector<int64_t>{queries, 1, (queries + 1) / 2, 0} : std::vector<int64_t>(4, queries);
    key_lengths = ragged ? std::vector<int64_t>{(keys + 1) / 2, keys, 0, 1} : std::vector<int64_t>(4, keys);
    if (ragged && queries == keys) key_lengths = query_lengths;  // as in self-attention
    bias = at::randn({4, heads, queries, keys}, at::kDouble);
    bias[0][0][0][0] = -HUGE_VAL;
    edges = at::rand({4, queries, keys}) < 0.7;
    edges[0][queries / 2].fill_(false);
  }

  bool has(int which) const { return (bits & which) != 0; }
  fovea::nn::SequenceLayout query_layout() const { return fovea::nn::SequenceLayout::padded(query_lengths, queries); }
  fovea::nn::SequenceLayout key_layout() const { return fovea::nn::SequenceLayout::padded(key_lengths, keys); }

  fovea::nn::AttentionMask mask(bool packed, const at::Tensor& with_bias) const {
    using fovea::nn::AttentionMask;
    AttentionMask m = packed ? AttentionMask(query_layout().as_packed(), key_layout().as_packed(), has(kCausal))
                             : AttentionMask(query_layout(), key_layout(), has(kCausal));
    if (has(kWindow)) m = m.with_window(left, right);
    if (has(kBias)) m = m.with_bias(with_bias);
    if (has(kEdges)) m = m.with_edges(edges);
    return m;
  }
  fovea::nn::AttentionMask mask(bool packed = false) const { return mask(packed, bias); }

  /// Whether query i of a sequence may look at key j.
  bool allowed(int64_t sequence, int64_t head, int64_t i, int64_t j) const {
    const int64_t position = i + keys - queries;
    if (j >= key_lengths[static_cast<size_t>(sequence)]) return false;
    if (has(kCausal) && j > position) return false;
    if (has(kWindow) && (j < position - left || j > position + right)) return false;
    if (has(kEdges) && !edges[sequence][i][j].item<bool>()) return false;
    return !has(kBias) || std::isfinite(bias[sequence][head][i][j].item<double>());
  }
};
