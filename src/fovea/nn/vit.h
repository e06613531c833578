#pragma once

#include "fovea/core/enum_names.h"
#include "fovea/nn/positional_encoding.h"
#include "fovea/nn/vit_block.h"

namespace fovea::nn {

/// How an image becomes tokens.
enum class ViTStem { kPatches, kConvolutions };

constexpr auto enum_names(ViTStem) {
  return std::to_array<EnumName<ViTStem>>({{ViTStem::kPatches, "patches"}, {ViTStem::kConvolutions, "convolutions"}});
}

/// What the head reads: a token that stands before the patches, or the mean of all patches.
enum class ViTPooling { kToken, kMean };

constexpr auto enum_names(ViTPooling) {
  return std::to_array<EnumName<ViTPooling>>({{ViTPooling::kToken, "token"}, {ViTPooling::kMean, "mean"}});
}

struct ViTOptions {
  PatchEmbeddingOptions image;  // its num_hiddens is the block's
  ViTStem stem = ViTStem::kPatches;
  ViTPooling pooling = ViTPooling::kToken;
  bool distillation_token = false;  // needs ViTPooling::kToken
  bool masks_own = false;           // no token looks at itself
  int64_t num_blks = 2;
  ViTBlockOptions block;
  double emb_dropout = 0.1;
  int64_t num_classes = 10;
  Positions positions = Positions::kLearned;
  double pos_embedding_std = 1.0;  // of the starting values of learned positions; the paper has 0.02
};

/// What the heads say, (batch, num_classes) each.
struct ViTLogits {
  at::Tensor labels;     // of the class token, or of the mean
  at::Tensor distilled;  // of the distillation token; undefined where there is none
};

/// The vision Transformer (Dosovitskiy et al. 2021; d2l 11.8): a class token before the patches of an image, learned
/// positions, pre-norm blocks, and a head that reads the class token. With a distillation token it is DeiT (Touvron et
/// al., "Training data-efficient image transformers & distillation through attention", 2021): a second token with a
/// head of its own learns what a teacher says. Parameters: patch_embedding.conv (or stem), cls_token (1, 1,
/// num_hiddens), dist_token, pos_embedding (1, tokens, num_hiddens), blks.0, ..., head.0 (layer norm), head.1 (linear),
/// head_dist.
class ViTImpl : public torch::nn::Module {
 public:
  /// Throws Error for patches that do not cut the image, and for a distillation token without a class token.
  explicit ViTImpl(const ViTOptions& options);

  /// image (batch, channels, height, width) -> logits (batch, num_classes); with a distillation token the mean of both
  /// heads.
  /// `valid_lens`, int64 (batch): only so many patches of each image, the first ones, may be looked at; the tokens
  /// before them always may. Undefined: all. Throws Error for the mean of patches, which takes no lengths.
  /// Recorded weights are (batch, num_heads, tokens, tokens), named "blks.0.attention", ... (assign_paths)
  at::Tensor forward(const at::Tensor& image, const at::Tensor& valid_lens = {}, AttentionRecorder* recorder = nullptr);
  /// The heads apart, as a student is trained.
  ViTLogits forward_heads(const at::Tensor& image, const at::Tensor& valid_lens = {},
                          AttentionRecorder* recorder = nullptr);

  /// Rows and columns of patches, and how many tokens stand before them.
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t prefix() const { return prefix_; }

 private:
  // Class and distillation token, and the patches behind them: (batch, tokens, num_hiddens).
  at::Tensor tokens_of(const at::Tensor& image);
  AttentionMask mask_of(const at::Tensor& tokens, const at::Tensor& valid_lens) const;

  ViTPooling pooling_;
  bool masks_own_;
  int64_t prefix_;  // tokens before the patches
  int64_t rows_, columns_;
  PatchEmbedding patch_embedding_{nullptr};
  ConvStem stem_{nullptr};
  at::Tensor cls_token_, dist_token_;
  std::optional<TokenPositions> positions_;  // there is always one
  Dropout dropout_;
  std::vector<ViTBlock> blks_;
  torch::nn::LayerNorm head_norm_{nullptr};
  Linear head_dense_{nullptr}, head_dist_{nullptr};
};
TORCH_MODULE(ViT);

}  // namespace fovea::nn
