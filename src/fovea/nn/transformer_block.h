#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "fovea/nn/attention.h"

/// The parts of the Transformer (Vaswani et al. 2017; d2l 11.7). Every `x` is (batch, steps, num_hiddens) padded
/// or (total, num_hiddens) packed, as its layout or mask says; outputs have the shape of the queries.
namespace fovea::nn {

/// Two dense layers with a ReLU between, on each token alone.
class PositionWiseFFNImpl : public torch::nn::Module {
 public:
  PositionWiseFFNImpl(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_outputs);
  at::Tensor forward(const at::Tensor& x);

 private:
  Linear dense1_{nullptr}, dense2_{nullptr};
};
TORCH_MODULE(PositionWiseFFN);

/// Residual connection, then layer normalisation: ln(x + dropout(y)).
class AddNormImpl : public torch::nn::Module {
 public:
  AddNormImpl(int64_t num_hiddens, double dropout);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y, const SequenceLayout& layout);

 private:
  Dropout dropout_;
  torch::nn::LayerNorm ln_{nullptr};
};
TORCH_MODULE(AddNorm);

struct TransformerBlockOptions {
  int64_t num_hiddens = 256;
  int64_t ffn_num_hiddens = 64;
  int64_t num_heads = 4;
  double dropout = 0.2;
  bool use_bias = false;
  AttentionPath attention = AttentionPath::kFlash;
};

class TransformerEncoderBlockImpl : public torch::nn::Module {
 public:
  explicit TransformerEncoderBlockImpl(const TransformerBlockOptions& options);
  at::Tensor forward(const at::Tensor& x, const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

 private:
  MultiHeadAttention attention_{nullptr};
  AddNorm addnorm1_{nullptr}, addnorm2_{nullptr};
  PositionWiseFFN ffn_{nullptr};
};
TORCH_MODULE(TransformerEncoderBlock);

class TransformerDecoderBlockImpl : public torch::nn::Module {
 public:
  explicit TransformerDecoderBlockImpl(const TransformerBlockOptions& options);

  /// All target tokens at once. `self_mask` must be causal, in training and in evaluation alike.
  at::Tensor forward(const at::Tensor& x, const AttentionMask& self_mask, const at::Tensor& encoded,
                     const AttentionMask& cross_mask, AttentionRecorder* recorder = nullptr);

  /// Room for `max_steps` tokens after these encoder outputs: see MultiHeadAttention.
  Cache make_cache(const at::Tensor& encoded, const SequenceLayout& encoded_layout, const Size& max_steps);
  /// One more token: x (batch, 1, num_hiddens). `self_mask`: this token as query, all so far as keys.
  at::Tensor step(const at::Tensor& x, CacheCursor& cache, const AttentionMask& self_mask,
                  AttentionRecorder* recorder = nullptr);

 private:
  MultiHeadAttention attention1_{nullptr}, attention2_{nullptr};
  AddNorm addnorm1_{nullptr}, addnorm2_{nullptr}, addnorm3_{nullptr};
  PositionWiseFFN ffn_{nullptr};
};
TORCH_MODULE(TransformerDecoderBlock);

}  // namespace fovea::nn
