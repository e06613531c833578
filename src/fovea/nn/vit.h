#pragma once

#include "fovea/nn/vit_block.h"

namespace fovea::nn {

struct ViTOptions {
  PatchEmbeddingOptions image;  // its num_hiddens is the block's
  int64_t num_blks = 2;
  ViTBlockOptions block;
  double emb_dropout = 0.1;
  int64_t num_classes = 10;
  double pos_embedding_std = 1.0;  // of the positions' starting values; the paper has 0.02
};

/// The vision Transformer (Dosovitskiy et al. 2021; d2l 11.8): a class token before the patches of an image, learned
/// positions, pre-norm blocks, and a head that reads the class token.
/// Parameters: patch_embedding.conv, cls_token (1, 1, num_hiddens), pos_embedding (1, num_patches + 1, num_hiddens),
/// blks.0, ..., head.0 (layer norm), head.1 (linear).
class ViTImpl : public torch::nn::Module {
 public:
  explicit ViTImpl(const ViTOptions& options);

  /// image (batch, channels, height, width) -> logits (batch, num_classes).
  /// `valid_lens`, int64 (batch): only so many patches of each image, the first ones, may be looked at; the class token
  /// always may. Undefined: all.
  /// Recorded weights are (batch, num_heads, 1 + num_patches, 1 + num_patches), named "blks.0.attention", ...
  /// (assign_paths)
  at::Tensor forward(const at::Tensor& image, const at::Tensor& valid_lens = {}, AttentionRecorder* recorder = nullptr);

 private:
  PatchEmbedding patch_embedding_{nullptr};
  at::Tensor cls_token_, pos_embedding_;
  Dropout dropout_;
  std::vector<ViTBlock> blks_;
  torch::nn::LayerNorm head_norm_{nullptr};
  Linear head_dense_{nullptr};
};
TORCH_MODULE(ViT);

}  // namespace fovea::nn
