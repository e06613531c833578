#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/nn/linear.h"

/// Residual networks (He et al. 2016; d2l 8.6), with the book's parameter names.
namespace fovea::nn {

/// d2l's Residual: two convolutions of 3 x 3, each with a batch norm, and the input added before the last ReLU. The
/// input goes through a convolution of 1 x 1 where it has other sizes.
class ResidualImpl : public torch::nn::Module {
 public:
  ResidualImpl(int64_t in_channels, int64_t num_channels, bool use_1x1conv, int64_t stride, bool use_bias = true,
               bool shortcut_norm = false);
  /// (batch, in_channels, height, width) -> (batch, num_channels, height / stride, width / stride), rounded up
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
};
TORCH_MODULE(Residual);

/// What comes before the blocks: a convolution of 7 x 7 and a pool, which together leave a sixteenth of the pixels (the
/// book's), or one of 3 x 3 that leaves them all, for small images.
enum class ResNetStem { kLarge, kSmall };

constexpr auto enum_names(ResNetStem) {
  return std::to_array<EnumName<ResNetStem>>({{ResNetStem::kLarge, "large"}, {ResNetStem::kSmall, "small"}});
}

struct ResNetOptions {
  int64_t image_channels = 1;
  int64_t num_classes = 10;
  ResNetStem stem = ResNetStem::kLarge;
  std::vector<int64_t> channels = {64, 128, 256, 512};  // of each group of blocks; all but the first halve the sides
  int64_t num_residuals = 2;                            // blocks in a group
  bool use_bias = true;                                 // of the convolutions; the paper's have none
  bool shortcut_norm = false;                           // a batch norm behind the 1 x 1 convolutions, as in the paper
};

/// d2l's ResNet. Parameters: net.0 (the stem), net.b2, net.b3, ... (the groups), net.last.2 (the dense layer). The
/// defaults are ResNet-18.
class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const ResNetOptions& options);
  /// image (batch, channels, height, width) -> logits (batch, num_classes)
  at::Tensor forward(const at::Tensor& image);

 private:
  ResNetStem stem_;
  torch::nn::Conv2d stem_conv_{nullptr};
  torch::nn::BatchNorm2d stem_norm_{nullptr};
  std::vector<Residual> blocks_;
  Linear dense_{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace fovea::nn
