#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <optional>

#include "fovea/nn/attention.h"

/// The parts of the vision Transformer (Dosovitskiy et al. 2021; d2l 11.8).
namespace fovea::nn {

struct PatchEmbeddingOptions {
  int64_t channels = 1;
  int64_t image_height = 96, image_width = 96;
  int64_t patch_height = 16;
  std::optional<int64_t> patch_width;  // that of the height where it is not given
  int64_t num_hiddens = 0;             // has to be given
};

/// Cuts images into patches, row by row, and projects each: d2l's convolution whose stride is its kernel, computed as
/// one matrix product. Its parameters are that convolution's, `conv.weight` (num_hiddens, channels, patch_height,
/// patch_width) and `conv.bias`.
class PatchEmbeddingImpl : public torch::nn::Module {
 public:
  /// Throws Error, naming both sizes, unless the patches cut the image without a remainder.
  explicit PatchEmbeddingImpl(const PatchEmbeddingOptions& options);

  /// (batch, channels, image_height, image_width) -> (batch, num_patches, num_hiddens). Throws Error for images of
  /// another size.
  at::Tensor forward(const at::Tensor& image);

  int64_t num_patches() const { return rows_ * columns_; }

 private:
  PatchEmbeddingOptions options_;
  int64_t rows_, columns_;  // of patches
  int64_t patch_width_;
  torch::nn::Conv2d conv_{nullptr};
};
TORCH_MODULE(PatchEmbedding);

/// Two dense layers with a GELU between, on each token alone, dropout after either.
class ViTMLPImpl : public torch::nn::Module {
 public:
  ViTMLPImpl(int64_t num_hiddens, int64_t mlp_num_hiddens, int64_t num_outputs, double dropout);
  at::Tensor forward(const at::Tensor& x, const SequenceLayout& layout);

 private:
  Linear dense1_{nullptr}, dense2_{nullptr};
  Dropout dropout1_, dropout2_;
};
TORCH_MODULE(ViTMLP);

struct ViTBlockOptions {
  int64_t num_hiddens = 512;
  int64_t mlp_num_hiddens = 2048;
  int64_t num_heads = 8;
  double dropout = 0.1;
  bool use_bias = false;  // of the attention's projections
  AttentionPath attention = AttentionPath::kFlash;
  double stochastic_depth = 0.0;
};

/// Stochastic depth (Huang et al. 2016): in training, what a branch adds to the residual stream is dropped for a whole
/// example with probability p, and else scaled by 1 / (1 - p). Drawn by counter, as dropout.
class StochasticDepthImpl : public torch::nn::Module {
 public:
  /// Throws Error unless 0 <= p < 1.
  explicit StochasticDepthImpl(double p);
  /// branch (batch, ...)
  at::Tensor forward(const at::Tensor& branch);

 private:
  Dropout dropout_;
};
TORCH_MODULE(StochasticDepth);

/// Attention, then the dense layers; each after a norm and beside a residual connection (pre-norm):
/// y = x + attention(ln1(x)), y + mlp(ln2(y)).
class ViTBlockImpl : public torch::nn::Module {
 public:
  explicit ViTBlockImpl(const ViTBlockOptions& options);

  /// x: (batch, steps, num_hiddens), or (total, num_hiddens) where the mask's layouts are packed.
  at::Tensor forward(const at::Tensor& x, const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

  /// What forward gives for the first token of each sequence, (batch, 1, num_hiddens), dropout included, without
  /// computing the others: enough for the last block where only the class token is read. x padded, with at least one
  /// token in each sequence.
  at::Tensor forward_first(const at::Tensor& x, const AttentionMask& mask);

 private:
  torch::nn::LayerNorm ln1_{nullptr}, ln2_{nullptr};
  MultiHeadAttention attention_{nullptr};
  ViTMLP mlp_{nullptr};
  StochasticDepth depth1_, depth2_;
};
TORCH_MODULE(ViTBlock);

}  // namespace fovea::nn
