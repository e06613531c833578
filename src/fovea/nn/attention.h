#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fovea/nn/attention_mask.h"
#include "fovea/nn/dropout.h"
#include "fovea/nn/linear.h"

namespace fovea::nn {

/// Collects attention weights for pictures. Passed in by who wants them, never kept by a layer, so that a network
/// can serve many threads. Weights are detached, (batch, heads, queries, keys), in the order of the forward pass.
class AttentionRecorder {
 public:
  struct Record {
    std::string name;  // "encoder.block0", "decoder.block1.self", "decoder.block1.cross"
    at::Tensor weights;
  };
  /// Names the weights that come next, in order. Later ones without a name get an empty one.
  void expect(std::deque<std::string> names) { names_ = std::move(names); }
  void add(const at::Tensor& weights) {
    records_.push_back({names_.empty() ? std::string() : names_.front(), weights.detach()});
    if (!names_.empty()) names_.pop_front();
  }
  const std::vector<Record>& records() const { return records_; }

 private:
  std::deque<std::string> names_;
  std::vector<Record> records_;
};

/// How attention is computed: tile by tile (ops/flash_attention.h), or the plain way, which writes the weights of
/// every head to memory. The result is the same, dropout included; only what a padded query gets differs (flash: 0).
/// The plain way is taken for what flash cannot do: weights to record, heads wider than 256, tracing.
enum class AttentionPath { kFlash, kPlain };

/// softmax(q k^T / sqrt(d)) v for every head at once.
/// q (batch, heads, queries, d), k (batch, heads, keys, d), v (batch, heads, keys, d_v), padded.
/// Returns (batch, heads, queries, d_v).
at::Tensor dot_product_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionMask& mask, Dropout dropout, AttentionRecorder* recorder = nullptr,
                                 AttentionPath path = AttentionPath::kFlash);

/// Scaled dot-product attention (d2l 11.3). Queries (batch, queries, d), keys (batch, keys, d),
/// values (batch, keys, d_v); returns (batch, queries, d_v).
class DotProductAttentionImpl : public torch::nn::Module {
 public:
  explicit DotProductAttentionImpl(double dropout, AttentionPath path = AttentionPath::kFlash);
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

 private:
  Dropout dropout_;
  AttentionPath path_;
};
TORCH_MODULE(DotProductAttention);

/// Additive attention (Bahdanau et al. 2014; d2l 11.3): w_v^T tanh(W_q q + W_k k). Query and key sizes may differ.
/// Queries (batch, queries, query_size), keys (batch, keys, key_size), values (batch, keys, d_v);
/// returns (batch, queries, d_v).
class AdditiveAttentionImpl : public torch::nn::Module {
 public:
  AdditiveAttentionImpl(int64_t query_size, int64_t key_size, int64_t num_hiddens, double dropout);
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

 private:
  Linear W_k_{nullptr}, W_q_{nullptr}, w_v_{nullptr};
  Dropout dropout_;
};
TORCH_MODULE(AdditiveAttention);

struct MultiHeadAttentionOptions {
  int64_t num_hiddens = 256;
  int64_t num_heads = 4;
  double dropout = 0.0;
  bool use_bias = false;
  AttentionPath path = AttentionPath::kFlash;
};

/// Keys and values, projected and split into heads: (batch, heads, keys, num_hiddens / heads), padded.
struct KeyValue {
  at::Tensor keys, values;
};

/// Multi-head attention (Vaswani et al. 2017; d2l 11.5).
/// Takes padded (batch, steps, num_hiddens) or packed (total, num_hiddens) as the mask's layouts say, and returns
/// the queries' shape. Packed tokens stay packed: neither projections nor the flash path touch any padding.
class MultiHeadAttentionImpl : public torch::nn::Module {
 public:
  /// Throws Error unless num_heads divides num_hiddens.
  explicit MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options);

  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

  /// The two halves of forward, for decoders that keep projected keys and values between steps.
  KeyValue project(const at::Tensor& keys, const at::Tensor& values, const SequenceLayout& layout);
  at::Tensor attend(const at::Tensor& queries, const KeyValue& kv, const AttentionMask& mask,
                    AttentionRecorder* recorder = nullptr);

  int64_t num_heads() const { return num_heads_; }

 private:
  // Projections of one input are one matrix product where that pays.
  std::vector<at::Tensor> project_together(const at::Tensor& x, const std::vector<Linear>& projections) const;
  std::vector<at::Tensor> project_keys(const at::Tensor& keys, const at::Tensor& values);
  std::vector<at::Tensor> project_all(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);
  at::Tensor split_heads(const at::Tensor& x, const SequenceLayout& layout) const;
  at::Tensor attend_heads(const at::Tensor& q, const KeyValue& kv, const AttentionMask& mask,
                          AttentionRecorder* recorder);
  at::Tensor attend_packed(const std::vector<at::Tensor>& projected, const AttentionMask& mask);

  int64_t num_heads_;
  AttentionPath path_;
  Linear W_q_{nullptr}, W_k_{nullptr}, W_v_{nullptr}, W_o_{nullptr};
  Dropout dropout_;  // of the weights; d2l's attribute path is attention.dropout
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace fovea::nn
