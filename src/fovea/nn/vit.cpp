#include "fovea/nn/vit.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "fovea/nn/children.h"
#include "fovea/nn/size.h"

namespace fovea::nn {
namespace {

PatchEmbeddingOptions image_options(const ViTOptions& o) {
  PatchEmbeddingOptions image = o.image;
  image.num_hiddens = o.block.num_hiddens;
  return image;
}

}  // namespace

ViTImpl::ViTImpl(const ViTOptions& o)
    : pooling_(o.pooling),
      masks_own_(o.masks_own),
      prefix_((o.pooling == ViTPooling::kToken ? 1 : 0) + (o.distillation_token ? 1 : 0)),
      rows_(o.image.image_height / o.image.patch_height),
      columns_(o.image.image_width / o.image.patch_width.value_or(o.image.patch_height)),
      dropout_(o.emb_dropout) {
  if (o.num_blks < 1) fail("vision Transformer: expected at least one block, got {}", o.num_blks);
  if (o.distillation_token && o.pooling != ViTPooling::kToken) {
    fail("vision Transformer: a distillation token stands beside a class token, not beside the mean of the patches");
  }
  const int64_t n = o.block.num_hiddens;
  if (o.stem == ViTStem::kPatches) {
    patch_embedding_ = register_module("patch_embedding", PatchEmbedding(image_options(o)));
  } else {
    stem_ = register_module("stem", ConvStem(image_options(o)));
  }
  if (o.pooling == ViTPooling::kToken) cls_token_ = register_parameter("cls_token", at::zeros({1, 1, n}));
  if (o.distillation_token) dist_token_ = register_parameter("dist_token", at::zeros({1, 1, n}));
  positions_.emplace(*this, TokenPositionsOptions{.num_hiddens = n,
                                                  .num_heads = o.block.num_heads,
                                                  .num_tokens = prefix_ + rows_ * columns_,
                                                  .positions = o.positions,
                                                  .std = o.pos_embedding_std});
  register_module("dropout", dropout_);
  const auto blks = register_module("blks", std::make_shared<Children>());
  blks_ = make_vit_blocks(*blks, o.num_blks, o.block);
  const auto head = register_module("head", std::make_shared<Children>());
  head_norm_ = head->register_module("0", torch::nn::LayerNorm(torch::nn::LayerNormOptions({n})));
  head_dense_ = head->register_module("1", Linear(n, o.num_classes));
  if (o.distillation_token) head_dist_ = register_module("head_dist", Linear(n, o.num_classes));
}

at::Tensor ViTImpl::tokens_of(const at::Tensor& image) {
  const at::Tensor patches = stem_.is_empty() ? patch_embedding_->forward(image) : stem_->forward(image);
  std::vector<at::Tensor> tokens;
  for (const auto& token : {cls_token_, dist_token_}) {
    if (token.defined()) tokens.push_back(token.expand_as(patches.narrow(1, 0, 1)));
  }
  if (tokens.empty()) return patches;
  tokens.push_back(patches);
  return at::cat(tokens, 1);
}

AttentionMask ViTImpl::mask_of(const at::Tensor& tokens, const at::Tensor& valid_lens) const {
  const int64_t steps = tokens.size(1);
  if (valid_lens.defined() && prefix_ == 0) {
    fail("vision Transformer: the mean of all patches takes no lengths");
  }
  const AttentionMask mask = valid_lens.defined()
                                 ? AttentionMask::from_valid_lens(valid_lens + prefix_, tokens.size(0), steps, steps)
                                 : AttentionMask::self(SequenceLayout::full(tokens));
  if (!masks_own_) return mask;
  const at::Tensor places = arange(steps, tokens);
  return mask.with_edges((places.unsqueeze(0) != places.unsqueeze(1)).unsqueeze(0));  // (1, tokens, tokens)
}

ViTLogits ViTImpl::forward_heads(const at::Tensor& image, const at::Tensor& valid_lens, AttentionRecorder* recorder) {
  at::Tensor x = tokens_of(image);
  const AttentionMask mask = positions_->for_attention(mask_of(x, valid_lens));
  x = dropout_->forward(positions_->add(x), mask.queries());
  // Where the head reads the first tokens only, nothing else of the last block is computed, unless somebody wants to
  // see its weights. Traced graphs take the same way: its ops are torch's own.
  for (size_t i = 0; i < blks_.size(); ++i) {
    const bool reads_first =
        i + 1 == blks_.size() && prefix_ > 0 && recorder == nullptr && positions_->allow_first_queries();
    x = reads_first ? blks_[i]->forward_first(x, mask, prefix_) : blks_[i]->forward(x, mask, recorder);
  }
  const auto first = [&](int64_t place) { return head_norm_->forward(x.select(1, place)); };
  if (pooling_ == ViTPooling::kMean) return {head_dense_->forward(head_norm_->forward(x.mean(1))), {}};
  if (head_dist_.is_empty()) return {head_dense_->forward(first(0)), {}};
  return {head_dense_->forward(first(0)), head_dist_->forward(first(1))};
}

at::Tensor ViTImpl::forward(const at::Tensor& image, const at::Tensor& valid_lens, AttentionRecorder* recorder) {
  const ViTLogits logits = forward_heads(image, valid_lens, recorder);
  return logits.distilled.defined() ? (logits.labels + logits.distilled) / 2 : logits.labels;
}

}  // namespace fovea::nn
