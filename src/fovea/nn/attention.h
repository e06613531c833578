#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <utility>
#include <vector>

#include "fovea/nn/attention_mask.h"
#include "fovea/nn/cache.h"
#include "fovea/nn/dropout.h"
#include "fovea/nn/linear.h"

namespace fovea::nn {

/// Collects attention weights for pictures. It is passed in by who wants them and never kept by a layer, so that a
/// network can serve many threads. Weights are (batch, heads, queries, keys), in the order of the forward pass, and
/// named by the path of the attention that computed them (assign_paths). They are detached, unless gradients of the
/// weights are wanted.
class AttentionRecorder {
 public:
  enum class Keep { kWeights, kGraph };
  explicit AttentionRecorder(Keep keep = Keep::kWeights) : keep_(keep) {}

  struct Record {
    std::string name;  // "encoder.blks.block0.attention"; empty where nobody assigned paths
    at::Tensor weights;
  };
  void add(const std::string& name, const at::Tensor& weights) {
    records_.push_back({name, keep_ == Keep::kGraph ? weights : weights.detach()});
  }
  const std::vector<Record>& records() const { return records_; }

 private:
  Keep keep_;
  std::vector<Record> records_;
};

/// How attention is computed: tile by tile (ops/flash_attention.h), or the plain way, which writes the weights of
/// every head to memory. The result is the same, dropout included; only what a padded query gets differs (flash: 0).
/// The plain way is taken for what flash cannot do: weights to record, heads wider than 256, tracing.
enum class AttentionPath { kFlash, kPlain };

constexpr auto enum_names(AttentionPath) {
  return std::to_array<EnumName<AttentionPath>>({{AttentionPath::kFlash, "flash"}, {AttentionPath::kPlain, "plain"}});
}

/// What every attention has: dropout of the weights, and its path as the name of what it records.
class AttentionModule : public torch::nn::Module, public Placed {
 public:
  void set_path(const std::string& path) override { record_name_ = path; }

 protected:
  AttentionModule(double dropout, AttentionPath path);

  /// Projections of one input, all of one size: one matrix product where that pays.
  static std::vector<at::Tensor> project_together(const at::Tensor& x, const std::vector<Linear>& projections);
  bool takes_flash(const at::Tensor& q, int64_t head_dim, int64_t value_dim, const AttentionRecorder* recorder) const;
  /// softmax(q k^T / sqrt(d)) v for every head at once. q (batch, heads, queries, d), k (batch, heads, keys, d),
  /// v (batch, heads, keys, d_v), padded. Returns (batch, heads, queries, d_v).
  at::Tensor dot_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionMask& mask,
                         AttentionRecorder* recorder);
  /// The same by the op, for padded and for packed (total, heads, d).
  at::Tensor flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionMask& mask) const;
  /// The weights of these scores (batch, heads, queries, keys), times the values.
  at::Tensor weighted_sum(const at::Tensor& scores, const at::Tensor& values, const AttentionMask& mask,
                          AttentionRecorder* recorder);
  /// Records the weights, drops some of them, and sums up the values.
  at::Tensor apply_weights(const at::Tensor& weights, const at::Tensor& values, AttentionRecorder* recorder);

 private:
  Dropout dropout_;  // of the weights; d2l's attribute path is attention.dropout
  AttentionPath path_;
  std::string record_name_;
};

/// Scaled dot-product attention (d2l 11.3). Queries (batch, queries, d), keys (batch, keys, d),
/// values (batch, keys, d_v); returns (batch, queries, d_v).
class DotProductAttentionImpl : public AttentionModule {
 public:
  explicit DotProductAttentionImpl(double dropout, AttentionPath path = AttentionPath::kFlash);
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);
};
TORCH_MODULE(DotProductAttention);

/// Additive attention (Bahdanau et al. 2014; d2l 11.3): w_v^T tanh(W_q q + W_k k). Query and key sizes may differ.
/// Queries (batch, queries, query_size), keys (batch, keys, key_size), values (batch, keys, d_v);
/// returns (batch, queries, d_v). Throws Error for a mask with rotary positions, which are of dot products.
class AdditiveAttentionImpl : public AttentionModule {
 public:
  AdditiveAttentionImpl(int64_t query_size, int64_t key_size, int64_t num_hiddens, double dropout);
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

 private:
  Linear W_k_{nullptr}, W_q_{nullptr}, w_v_{nullptr};
};
TORCH_MODULE(AdditiveAttention);

struct MultiHeadAttentionOptions {
  int64_t num_hiddens = 0;  // has to be given, as num_heads
  int64_t num_heads = 0;
  double dropout = 0.0;
  bool use_bias = false;
  AttentionPath path = AttentionPath::kFlash;
  /// Scores are multiplied by a learnt number of each head, `scale` (num_heads), which starts as 1 / sqrt(d) (Lee et
  /// al., "Vision Transformer for Small-Size Datasets", 2021). Not for `step` and `cross_step`.
  bool learned_scale = false;
};

/// Multi-head attention (Vaswani et al. 2017; d2l 11.5).
/// Takes padded (batch, steps, num_hiddens) or packed (total, num_hiddens) as the mask's layouts say, and returns
/// the queries' shape. Packed tokens stay packed: neither projections nor the flash path touch any padding.
class MultiHeadAttentionImpl : public AttentionModule {
 public:
  /// Throws Error unless num_heads divides num_hiddens.
  explicit MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options);

  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

  /// Self-attention token by token, each pass with the keys and values of all tokens so far. The cache holds keys and
  /// values of up to `max_steps` tokens, (batch, heads, max_steps, head_dim) each, for as many sequences as `like`
  /// (batch, ...) has, in its dtype and on its device. Keys are kept turned where positions are rotary.
  Cache make_cache(const at::Tensor& like, const Size& max_steps) const;
  /// x (batch, steps, num_hiddens): the last tokens so far, mostly one. `mask`: these as queries, all tokens so far as
  /// keys, both padded; that says the place of x in the cache, which is written.
  at::Tensor step(const at::Tensor& x, CacheCursor& cache, const AttentionMask& mask,
                  AttentionRecorder* recorder = nullptr);

  /// Attention to what an encoder gave, the same at each step. The cache holds its keys and values, projected once, and
  /// the lengths. `encoded` is padded or packed, as its layout says.
  Cache make_cross_cache(const at::Tensor& encoded, const SequenceLayout& layout);
  /// queries (batch, steps, num_hiddens).
  at::Tensor cross_step(const at::Tensor& queries, CacheCursor& cache, AttentionRecorder* recorder = nullptr);

 private:
  // Keys and values, projected and split into heads: (batch, heads, keys, head_dim), padded.
  struct KeyValue {
    at::Tensor keys, values;
  };
  std::vector<at::Tensor> project_keys(const at::Tensor& keys, const at::Tensor& values);
  std::vector<at::Tensor> project_all(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);
  at::Tensor project_queries(const at::Tensor& queries, const SequenceLayout& layout);
  at::Tensor scaled(const at::Tensor& projected) const;  // queries (..., num_hiddens)
  at::Tensor split_heads(const at::Tensor& x, const SequenceLayout& layout) const;
  at::Tensor attend(const at::Tensor& q, const KeyValue& kv, const AttentionMask& mask, AttentionRecorder* recorder);
  at::Tensor attend_packed(const std::vector<at::Tensor>& projected, const AttentionMask& mask);

  int64_t num_heads_, head_dim_;
  Linear W_q_{nullptr}, W_k_{nullptr}, W_v_{nullptr}, W_o_{nullptr};
  at::Tensor scale_;  // (num_heads); undefined where it is not learnt
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace fovea::nn
