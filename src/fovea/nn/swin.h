#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "fovea/nn/vit_block.h"

/// The Swin Transformer (Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021).
///
/// Tokens never lie row by row. Each stage keeps them in an order of its own: the first place of every window, then the
/// second place of every window, and so on. Attention within windows then needs no copy, (batch, tokens, num_hiddens)
/// being a view as (batch, windows * heads, places, d). A shifted block and a merge are permutations, known when the
/// network is built.
namespace fovea::nn {

/// An order of the tokens of a grid: which one, counted row by row, stands at each place.
using TokenOrder = std::vector<int64_t>;

struct SwinGrid {
  int64_t rows = 0, columns = 0;  // of tokens
  int64_t window = 7;             // sides of a window, in tokens; at most those of the grid
  int64_t windows() const { return rows / window * (columns / window); }
  int64_t places() const { return window * window; }
};

/// Attention within windows (window-based multi-head self-attention), with a learnt bias for each head and each
/// distance of two tokens. Parameters: W_q, W_k, W_v, W_o with biases, relative_position_bias ((2 window - 1)^2,
/// num_heads).
class WindowAttentionImpl : public AttentionModule {
 public:
  /// `shift`: by how many tokens the windows were moved down and to the right. Tokens that are neighbours only because
  /// the grid was rolled do not see each other. Throws Error unless num_heads divides num_hiddens.
  WindowAttentionImpl(const MultiHeadAttentionOptions& options, const SwinGrid& grid, int64_t shift);

  /// (batch, tokens, num_hiddens), in the order of these windows. Recorded weights are (batch, windows * num_heads,
  /// places, places).
  at::Tensor forward(const at::Tensor& x, AttentionRecorder* recorder = nullptr);

 private:
  at::Tensor bias() const;  // (1, windows * heads, places, places)

  SwinGrid grid_;
  int64_t num_heads_;
  at::Tensor distance_;   // int64 (places * places): the row of the table
  at::Tensor forbidden_;  // (windows, 1, places, places) of 0 and -inf; undefined where the windows are not shifted
  at::Tensor relative_position_bias_;
  Linear W_q_{nullptr}, W_k_{nullptr}, W_v_{nullptr}, W_o_{nullptr};
};
TORCH_MODULE(WindowAttention);

/// As ViT's block, with attention within windows, shifted or not.
class SwinBlockImpl : public torch::nn::Module {
 public:
  SwinBlockImpl(const ViTBlockOptions& options, const SwinGrid& grid, bool shifted);
  /// (batch, tokens, num_hiddens), in the stage's order
  at::Tensor forward(const at::Tensor& x, AttentionRecorder* recorder = nullptr);

 private:
  at::Tensor to_shifted_, from_shifted_;  // int64 (tokens); undefined where the windows are not shifted
  torch::nn::LayerNorm ln1_{nullptr}, ln2_{nullptr};
  WindowAttention attention_{nullptr};
  ViTMLP mlp_{nullptr};
  StochasticDepth depth1_, depth2_;
};
TORCH_MODULE(SwinBlock);

struct SwinOptions {
  PatchEmbeddingOptions image = {.image_height = 28, .image_width = 28, .patch_height = 2};
  std::vector<int64_t> num_blks = {2, 2};   // of each stage
  std::vector<int64_t> num_heads = {2, 4};  // of each stage
  int64_t num_hiddens = 48;                 // of the first stage; each further one has twice as many
  int64_t mlp_ratio = 4;                    // of the width inside the dense layers to num_hiddens
  int64_t window = 7;
  double emb_dropout = 0.0, dropout = 0.0, stochastic_depth = 0.0;  // the last: of the last block
  AttentionPath attention = AttentionPath::kFlash;
  int64_t num_classes = 10;
};

/// Parameters: patch_embedding.conv, patch_norm, stages.0.blks.0, ..., stages.0.merge_norm, stages.0.merge (a linear
/// layer from four tokens to one of twice the width), stages.1, ..., norm, head.
class SwinImpl : public torch::nn::Module {
 public:
  /// Throws Error, naming the numbers, where the window does not divide a stage's rows and columns of tokens or an odd
  /// number of them would have to be merged.
  explicit SwinImpl(const SwinOptions& options);

  /// image (batch, channels, height, width) -> logits (batch, num_classes)
  at::Tensor forward(const at::Tensor& image, AttentionRecorder* recorder = nullptr);

 private:
  struct Stage {
    at::Tensor from_before;  // int64 (tokens before): the four tokens of each merged one, in this stage's order
    torch::nn::LayerNorm merge_norm{nullptr};
    Linear merge{nullptr};  // into the next stage; empty in the last
    std::vector<SwinBlock> blks;
  };

  PatchEmbedding patch_embedding_{nullptr};
  torch::nn::LayerNorm patch_norm_{nullptr}, norm_{nullptr};
  Dropout dropout_;
  std::vector<Stage> stages_;
  Linear head_{nullptr};
};
TORCH_MODULE(Swin);

}  // namespace fovea::nn
