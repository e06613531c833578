#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "fovea/nn/positional_encoding.h"
#include "fovea/nn/vit_block.h"

namespace fovea::nn {

struct CCTOptions {
  int64_t channels = 1, image_height = 28, image_width = 28;
  int64_t num_convs = 2;    // each halves the sides
  int64_t kernel_size = 3;  // odd
  int64_t num_blks = 2;
  ViTBlockOptions block = {.num_hiddens = 128, .mlp_num_hiddens = 128, .num_heads = 2, .use_bias = true};
  Positions positions = Positions::kLearned;
  double emb_dropout = 0.0;
  int64_t num_classes = 10;
};

/// The compact convolutional Transformer (Hassani et al., "Escaping the Big Data Paradigm with Compact Transformers",
/// 2021): convolutions in place of patches, blocks as ViT's, and a head that takes a mean of all tokens, weighted by
/// attention (sequence pooling), in place of a class token. Parameters: convs.0, ..., pos_embedding (1, tokens,
/// num_hiddens), blks.0, ..., norm, attention_pool, head.
class CCTImpl : public torch::nn::Module {
 public:
  /// Throws Error where the convolutions leave nothing of the image.
  explicit CCTImpl(const CCTOptions& options);

  /// image (batch, channels, height, width) -> logits (batch, num_classes). Recorded weights: of each block (batch,
  /// num_heads, tokens, tokens), and those of the pooling, (batch, 1, 1, tokens), named "attention_pool".
  at::Tensor forward(const at::Tensor& image, AttentionRecorder* recorder = nullptr);

  /// Rows and columns of tokens.
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

 private:
  std::vector<torch::nn::Conv2d> convs_;
  int64_t rows_, columns_;
  std::optional<TokenPositions> positions_;  // there is always one
  Dropout dropout_;
  std::vector<ViTBlock> blks_;
  torch::nn::LayerNorm norm_{nullptr};
  Linear attention_pool_{nullptr}, head_{nullptr};
};
TORCH_MODULE(CCT);

}  // namespace fovea::nn
