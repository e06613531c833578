#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/children.h"

/// The parts of the vision Transformer (Dosovitskiy et al. 2021; d2l 11.8).
namespace fovea::nn {

struct PatchEmbeddingOptions {
  int64_t channels = 1;
  int64_t image_height = 96, image_width = 96;
  int64_t patch_height = 16;
  std::optional<int64_t> patch_width = std::nullopt;  // that of the height where it is not given
  int64_t num_hiddens = 0;                            // has to be given
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

/// Convolutions of 3 x 3 in place of the cut into patches (Xiao et al., "Early Convolutions Help Transformers See
/// Better", 2021). Each halves the sides and doubles the channels, with a batch norm and a ReLU behind it; a last one
/// of 1 x 1 gives the tokens. As many halve the sides as a patch of that size would need. Parameters: convs.0, norms.0,
/// ..., proj.
class ConvStemImpl : public torch::nn::Module {
 public:
  /// Throws Error unless patches are square, with a power of two above 1 for a side, and cut the image without a
  /// remainder.
  explicit ConvStemImpl(const PatchEmbeddingOptions& options);

  /// (batch, channels, image_height, image_width) -> (batch, num_patches, num_hiddens)
  at::Tensor forward(const at::Tensor& image);

  int64_t num_patches() const;

 private:
  PatchEmbeddingOptions options_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Conv2d proj_{nullptr};
};
TORCH_MODULE(ConvStem);

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
  std::optional<double> layer_scale = std::nullopt;  // what its factors start from; nothing: there are none
  /// Locality self-attention (Lee et al., "Vision Transformer for Small-Size Datasets", 2021): a learnt scale of the
  /// scores. The mask has its other half, that no token looks at itself.
  bool learned_scale = false;
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

/// What a branch adds, times a learnt factor of each channel, `gamma` (num_hiddens): Touvron et al., "Going deeper with
/// Image Transformers", 2021. As the identity where `initial` is not given.
class LayerScaleImpl : public torch::nn::Module {
 public:
  LayerScaleImpl(int64_t num_hiddens, std::optional<double> initial);
  at::Tensor forward(const at::Tensor& branch);

 private:
  at::Tensor gamma_;
};
TORCH_MODULE(LayerScale);

/// Attention, then the dense layers; each after a norm and beside a residual connection (pre-norm):
/// y = x + attention(ln1(x)), y + mlp(ln2(y)).
class ViTBlockImpl : public torch::nn::Module {
 public:
  explicit ViTBlockImpl(const ViTBlockOptions& options);

  /// x: (batch, steps, num_hiddens), or (total, num_hiddens) where the mask's layouts are packed.
  at::Tensor forward(const at::Tensor& x, const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

  /// What forward gives for the first tokens of each sequence, (batch, count, num_hiddens), without computing the
  /// others: enough for the last block where only the class token is read. Dropout falls as in forward where count
  /// is 1. x padded, with at least so many tokens in each sequence.
  at::Tensor forward_first(const at::Tensor& x, const AttentionMask& mask, int64_t count);

 private:
  at::Tensor add_branches(const at::Tensor& x, const at::Tensor& attended, const SequenceLayout& layout);

  torch::nn::LayerNorm ln1_{nullptr}, ln2_{nullptr};
  MultiHeadAttention attention_{nullptr};
  ViTMLP mlp_{nullptr};
  LayerScale scale1_{nullptr}, scale2_{nullptr};
  StochasticDepth depth1_, depth2_;
};
TORCH_MODULE(ViTBlock);

/// Stochastic depth of a block, counted from 0, of `count`: it grows from 0 in the first to `last` in the last one.
double stochastic_depth_of(int64_t block, int64_t count, double last);

/// `count` blocks as the children "0", "1", ... of `parent`. `options.stochastic_depth` is that of the last block.
std::vector<ViTBlock> make_vit_blocks(Children& parent, int64_t count, const ViTBlockOptions& options);

}  // namespace fovea::nn
