#include "fovea/nn/vit_block.h"

#include <torch/torch.h>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

torch::nn::LayerNorm layer_norm(int64_t num_hiddens) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({num_hiddens}));
}

void check_divides(int64_t image, int64_t patch, const char* side) {
  if (patch < 1 || image < 1 || image % patch != 0) {
    fail("patch embedding: an image of {} {} {} cannot be cut into patches of {}", side, image,
         image == 1 ? "pixel" : "pixels", patch);
  }
}

}  // namespace

PatchEmbeddingImpl::PatchEmbeddingImpl(const PatchEmbeddingOptions& o)
    : options_(o), patch_width_(o.patch_width.value_or(o.patch_height)) {
  check_divides(o.image_height, o.patch_height, "height");
  check_divides(o.image_width, patch_width_, "width");
  rows_ = o.image_height / o.patch_height;
  columns_ = o.image_width / patch_width_;
  conv_ = register_module(
      "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(o.channels, o.num_hiddens, {o.patch_height, patch_width_})
                                    .stride({o.patch_height, patch_width_})));
}

at::Tensor PatchEmbeddingImpl::forward(const at::Tensor& image) {
  if (image.dim() != 4 || image.size(1) != options_.channels || image.size(2) != options_.image_height ||
      image.size(3) != options_.image_width) {
    fail("patch embedding: expected images of (batch, {}, {}, {}), got {}", options_.channels, options_.image_height,
         options_.image_width, c10::str(image.sizes()));
  }
  const at::Tensor patches = image.unflatten(3, {columns_, patch_width_})
                                 .unflatten(2, {rows_, options_.patch_height})  // (batch, channels, rows, height,
                                 .permute({0, 2, 4, 1, 3, 5})                   //  columns, width)
                                 .flatten(3)                      // (batch, rows, columns, channels * height * width)
                                 .flatten(1, 2);                  // (batch, num_patches, channels * height * width)
  return linear(patches, conv_->weight.flatten(1), conv_->bias);  // (batch, num_patches, num_hiddens)
}

ViTMLPImpl::ViTMLPImpl(int64_t num_hiddens, int64_t mlp_num_hiddens, int64_t num_outputs, double dropout)
    : dropout1_(dropout), dropout2_(dropout) {
  dense1_ = register_module("dense1", Linear(num_hiddens, mlp_num_hiddens));
  register_module("dropout1", dropout1_);
  dense2_ = register_module("dense2", Linear(mlp_num_hiddens, num_outputs));
  register_module("dropout2", dropout2_);
}

at::Tensor ViTMLPImpl::forward(const at::Tensor& x, const SequenceLayout& layout) {
  const at::Tensor hidden = dropout1_->forward(at::gelu(dense1_->forward(x)), layout);  // (..., mlp_num_hiddens)
  return dropout2_->forward(dense2_->forward(hidden), layout);                          // (..., num_outputs)
}

StochasticDepthImpl::StochasticDepthImpl(double p) : dropout_(p) {
  register_module("dropout", dropout_);
}

at::Tensor StochasticDepthImpl::forward(const at::Tensor& branch) {
  if (!dropout_->active()) return branch;
  std::vector<int64_t> sizes(static_cast<size_t>(branch.dim()), 1);
  sizes.front() = branch.size(0);
  return branch * dropout_->forward(at::ones({branch.size(0), 1}, branch.options())).view(sizes);
}

ViTBlockImpl::ViTBlockImpl(const ViTBlockOptions& o) : depth1_(o.stochastic_depth), depth2_(o.stochastic_depth) {
  ln1_ = register_module("ln1", layer_norm(o.num_hiddens));
  attention_ = register_module("attention", MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = o.num_hiddens,
                                                                                         .num_heads = o.num_heads,
                                                                                         .dropout = o.dropout,
                                                                                         .use_bias = o.use_bias,
                                                                                         .path = o.attention}));
  ln2_ = register_module("ln2", layer_norm(o.num_hiddens));
  mlp_ = register_module("mlp", ViTMLP(o.num_hiddens, o.mlp_num_hiddens, o.num_hiddens, o.dropout));
  register_module("depth1", depth1_);
  register_module("depth2", depth2_);
}

at::Tensor ViTBlockImpl::forward(const at::Tensor& x, const AttentionMask& mask, AttentionRecorder* recorder) {
  const at::Tensor normed = ln1_->forward(x);
  const at::Tensor y = x + depth1_->forward(attention_->forward(normed, normed, normed, mask, recorder));
  return y + depth2_->forward(mlp_->forward(ln2_->forward(y), mask.queries()));
}

at::Tensor ViTBlockImpl::forward_first(const at::Tensor& x, const AttentionMask& mask) {
  const AttentionMask first_mask = mask.first_query();
  const at::Tensor normed = ln1_->forward(x);
  const at::Tensor attended = attention_->forward(normed.narrow(1, 0, 1), normed, normed, first_mask);  // (batch, 1, h)
  const at::Tensor y = x.narrow(1, 0, 1) + depth1_->forward(attended);
  return y + depth2_->forward(mlp_->forward(ln2_->forward(y), first_mask.queries()));
}

}  // namespace fovea::nn
