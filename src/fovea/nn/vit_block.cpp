#include "fovea/nn/vit_block.h"

#include <torch/torch.h>

#include <bit>

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

void check_image(const at::Tensor& image, const PatchEmbeddingOptions& o) {
  if (image.dim() == 4 && image.size(1) == o.channels && image.size(2) == o.image_height &&
      image.size(3) == o.image_width) {
    return;
  }
  fail("patch embedding: expected images of (batch, {}, {}, {}), got {}", o.channels, o.image_height, o.image_width,
       c10::str(image.sizes()));
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
  check_image(image, options_);
  const at::Tensor patches = image.unflatten(3, {columns_, patch_width_})
                                 .unflatten(2, {rows_, options_.patch_height})  // (batch, channels, rows, height,
                                 .permute({0, 2, 4, 1, 3, 5})                   //  columns, width)
                                 .flatten(3)                      // (batch, rows, columns, channels * height * width)
                                 .flatten(1, 2);                  // (batch, num_patches, channels * height * width)
  return linear(patches, conv_->weight.flatten(1), conv_->bias);  // (batch, num_patches, num_hiddens)
}

ConvStemImpl::ConvStemImpl(const PatchEmbeddingOptions& o) : options_(o) {
  check_divides(o.image_height, o.patch_height, "height");
  check_divides(o.image_width, o.patch_height, "width");
  if (o.patch_width.value_or(o.patch_height) != o.patch_height || o.patch_height < 2 ||
      !std::has_single_bit(static_cast<uint64_t>(o.patch_height))) {
    fail("convolutional stem: expected square patches with sides of 2, 4, 8, ... pixels, got {} x {}", o.patch_height,
         o.patch_width.value_or(o.patch_height));
  }
  const auto convs = register_module("convs", std::make_shared<Children>());
  const auto norms = register_module("norms", std::make_shared<Children>());
  const int halvings = std::countr_zero(static_cast<uint64_t>(o.patch_height));
  int64_t channels = o.channels;
  for (int i = 0; i < halvings; ++i) {
    const int64_t out = std::max<int64_t>(1, o.num_hiddens >> (halvings - 1 - i));
    const auto options = torch::nn::Conv2dOptions(channels, out, 3).stride(2).padding(1).bias(false);
    convs_.push_back(convs->register_module(std::to_string(i), torch::nn::Conv2d(options)));
    norms_.push_back(norms->register_module(std::to_string(i), torch::nn::BatchNorm2d(out)));
    channels = out;
  }
  proj_ = register_module("proj", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, o.num_hiddens, 1)));
}

int64_t ConvStemImpl::num_patches() const {
  return (options_.image_height / options_.patch_height) * (options_.image_width / options_.patch_height);
}

at::Tensor ConvStemImpl::forward(const at::Tensor& image) {
  check_image(image, options_);
  at::Tensor x = image.contiguous(at::MemoryFormat::ChannelsLast);
  for (size_t i = 0; i < convs_.size(); ++i) x = at::relu(norms_[i]->forward(convs_[i]->forward(x)));
  // In channels last, rows and columns of tokens lie one after the other: the convolution of 1 x 1 is a product.
  const at::Tensor tokens = x.flatten(2).transpose(1, 2);        // (batch, num_patches, channels)
  return linear(tokens, proj_->weight.flatten(1), proj_->bias);  // (batch, num_patches, num_hiddens)
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

LayerScaleImpl::LayerScaleImpl(int64_t num_hiddens, std::optional<double> initial) {
  if (initial) gamma_ = register_parameter("gamma", at::full({num_hiddens}, *initial));
}

at::Tensor LayerScaleImpl::forward(const at::Tensor& branch) {
  return gamma_.defined() ? branch * gamma_ : branch;
}

ViTBlockImpl::ViTBlockImpl(const ViTBlockOptions& o) : depth1_(o.stochastic_depth), depth2_(o.stochastic_depth) {
  ln1_ = register_module("ln1", layer_norm(o.num_hiddens));
  attention_ =
      register_module("attention", MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = o.num_hiddens,
                                                                                .num_heads = o.num_heads,
                                                                                .dropout = o.dropout,
                                                                                .use_bias = o.use_bias,
                                                                                .path = o.attention,
                                                                                .learned_scale = o.learned_scale}));
  ln2_ = register_module("ln2", layer_norm(o.num_hiddens));
  mlp_ = register_module("mlp", ViTMLP(o.num_hiddens, o.mlp_num_hiddens, o.num_hiddens, o.dropout));
  scale1_ = register_module("ls1", LayerScale(o.num_hiddens, o.layer_scale));
  scale2_ = register_module("ls2", LayerScale(o.num_hiddens, o.layer_scale));
  register_module("depth1", depth1_);
  register_module("depth2", depth2_);
}

at::Tensor ViTBlockImpl::forward(const at::Tensor& x, const AttentionMask& mask, AttentionRecorder* recorder) {
  const at::Tensor normed = ln1_->forward(x);
  return add_branches(x, attention_->forward(normed, normed, normed, mask, recorder), mask.queries());
}

at::Tensor ViTBlockImpl::forward_first(const at::Tensor& x, const AttentionMask& mask, int64_t count) {
  const AttentionMask first_mask = mask.first_queries(count);
  const at::Tensor normed = ln1_->forward(x);
  const at::Tensor attended = attention_->forward(normed.narrow(1, 0, count), normed, normed, first_mask);
  return add_branches(x.narrow(1, 0, count), attended, first_mask.queries());
}

at::Tensor ViTBlockImpl::add_branches(const at::Tensor& x, const at::Tensor& attended, const SequenceLayout& layout) {
  const at::Tensor y = x + depth1_->forward(scale1_->forward(attended));
  return y + depth2_->forward(scale2_->forward(mlp_->forward(ln2_->forward(y), layout)));
}

double stochastic_depth_of(int64_t block, int64_t count, double last) {
  return count == 1 ? last : last * (static_cast<double>(block) / static_cast<double>(count - 1));
}

std::vector<ViTBlock> make_vit_blocks(Children& parent, int64_t count, const ViTBlockOptions& options) {
  std::vector<ViTBlock> blocks;
  for (int64_t i = 0; i < count; ++i) {
    ViTBlockOptions own = options;
    own.stochastic_depth = stochastic_depth_of(i, count, options.stochastic_depth);
    blocks.push_back(parent.register_module(std::to_string(i), ViTBlock(own)));
  }
  return blocks;
}

}  // namespace fovea::nn
