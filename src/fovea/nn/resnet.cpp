#include "fovea/nn/resnet.h"

#include <torch/torch.h>

#include "fovea/nn/children.h"

namespace fovea::nn {
namespace {

torch::nn::Conv2d make_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool bias) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(bias));
}

}  // namespace

ResidualImpl::ResidualImpl(int64_t in_channels, int64_t num_channels, bool use_1x1conv, int64_t stride, bool use_bias,
                           bool shortcut_norm) {
  conv1_ = register_module("conv1", make_conv(in_channels, num_channels, 3, stride, 1, use_bias));
  conv2_ = register_module("conv2", make_conv(num_channels, num_channels, 3, 1, 1, use_bias));
  if (use_1x1conv) conv3_ = register_module("conv3", make_conv(in_channels, num_channels, 1, stride, 0, use_bias));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(num_channels));
  bn2_ = register_module("bn2", torch::nn::BatchNorm2d(num_channels));
  if (use_1x1conv && shortcut_norm) bn3_ = register_module("bn3", torch::nn::BatchNorm2d(num_channels));
}

at::Tensor ResidualImpl::forward(const at::Tensor& x) {
  at::Tensor y = at::relu(bn1_->forward(conv1_->forward(x)));
  y = bn2_->forward(conv2_->forward(y));
  at::Tensor shortcut = conv3_.is_empty() ? x : conv3_->forward(x);
  if (!bn3_.is_empty()) shortcut = bn3_->forward(shortcut);
  return at::relu(y + shortcut);
}

ResNetImpl::ResNetImpl(const ResNetOptions& o) : stem_(o.stem) {
  const auto net = register_module("net", std::make_shared<Children>());
  const auto stem = net->register_module("0", std::make_shared<Children>());
  int64_t channels = o.channels.front();
  const bool large = o.stem == ResNetStem::kLarge;
  stem_conv_ = stem->register_module("0", large ? make_conv(o.image_channels, channels, 7, 2, 3, o.use_bias)
                                                : make_conv(o.image_channels, channels, 3, 1, 1, o.use_bias));
  stem_norm_ = stem->register_module("1", torch::nn::BatchNorm2d(channels));
  for (size_t group = 0; group < o.channels.size(); ++group) {
    const auto children = net->register_module("b" + std::to_string(group + 2), std::make_shared<Children>());
    for (int64_t i = 0; i < o.num_residuals; ++i) {
      const bool halves = i == 0 && group > 0;
      blocks_.push_back(children->register_module(
          std::to_string(i),
          Residual(channels, o.channels[group], halves, halves ? 2 : 1, o.use_bias, o.shortcut_norm)));
      channels = o.channels[group];
    }
  }
  const auto last = net->register_module("last", std::make_shared<Children>());
  dense_ = last->register_module("2", Linear(channels, o.num_classes));
}

at::Tensor ResNetImpl::forward(const at::Tensor& image) {
  // Channels last is the layout in which oneDNN's convolutions and batch norms are quick.
  at::Tensor x = image.contiguous(at::MemoryFormat::ChannelsLast);
  x = at::relu(stem_norm_->forward(stem_conv_->forward(x)));
  if (stem_ == ResNetStem::kLarge) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
  for (auto& block : blocks_) x = block->forward(x);
  return dense_->forward(x.mean({2, 3}));
}

}  // namespace fovea::nn
