#include "fovea/nn/vit.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "fovea/nn/children.h"

namespace fovea::nn {
namespace {

PatchEmbeddingOptions image_options(const ViTOptions& o) {
  PatchEmbeddingOptions image = o.image;
  image.num_hiddens = o.block.num_hiddens;
  return image;
}

}  // namespace

ViTImpl::ViTImpl(const ViTOptions& o) : dropout_(o.emb_dropout) {
  if (o.num_blks < 1) fail("vision Transformer: expected at least one block, got {}", o.num_blks);
  const int64_t n = o.block.num_hiddens;
  patch_embedding_ = register_module("patch_embedding", PatchEmbedding(image_options(o)));
  cls_token_ = register_parameter("cls_token", at::zeros({1, 1, n}));
  pos_embedding_ =
      register_parameter("pos_embedding", at::randn({1, patch_embedding_->num_patches() + 1, n}) * o.pos_embedding_std);
  register_module("dropout", dropout_);
  const auto blks = register_module("blks", std::make_shared<Children>());
  for (int64_t i = 0; i < o.num_blks; ++i) {
    blks_.push_back(blks->register_module(std::to_string(i), ViTBlock(o.block)));
  }
  const auto head = register_module("head", std::make_shared<Children>());
  head_norm_ = head->register_module("0", torch::nn::LayerNorm(torch::nn::LayerNormOptions({n})));
  head_dense_ = head->register_module("1", Linear(n, o.num_classes));
}

at::Tensor ViTImpl::forward(const at::Tensor& image, const at::Tensor& valid_lens, AttentionRecorder* recorder) {
  const at::Tensor patches = patch_embedding_->forward(image);  // (batch, num_patches, num_hiddens)
  const int64_t batch = patches.size(0), steps = patches.size(1) + 1;
  at::Tensor x = at::cat({cls_token_.expand_as(patches.narrow(1, 0, 1)), patches}, 1);  // (batch, steps, num_hiddens)
  const AttentionMask mask = valid_lens.defined()
                                 ? AttentionMask::from_valid_lens(valid_lens + 1, batch, steps,
                                                                  steps)  // the class token is the first key
                                 : AttentionMask::self(SequenceLayout::full(x));
  x = dropout_->forward(x + pos_embedding_, mask.queries());
  // The head reads the class token only, so nothing else of the last block is computed, unless somebody wants to see
  // its weights. Traced graphs take the same way: its ops are torch's own.
  for (size_t i = 0; i < blks_.size(); ++i) {
    const bool last = i + 1 == blks_.size();
    x = last && recorder == nullptr ? blks_[i]->forward_first(x, mask) : blks_[i]->forward(x, mask, recorder);
  }
  return head_dense_->forward(head_norm_->forward(x.select(1, 0)));  // (batch, num_classes)
}

}  // namespace fovea::nn
