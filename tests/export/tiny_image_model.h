// A classifier of tiny images, its data's assets, and the ways to get exporting one wrong.
#pragma once

#include "fovea/export/torchscript.h"
#include "fovea/nn/attention.h"
#include "fovea/ops/flash_attention.h"
#include "fovea/tasks/classification/images/image_assets.h"
#include "tests/test.h"

struct TinyImageNetImpl : torch::nn::Module {
  enum class Fault { kNone, kFrozenShape, kFrozenNumber, kOwnOp };

  explicit TinyImageNetImpl(Fault what = Fault::kNone) : fault(what) {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 6, 3).stride(2)));
    attention = register_module("attention", fovea::nn::MultiHeadAttention(fovea::nn::MultiHeadAttentionOptions{
                                                 .num_hiddens = 6, .num_heads = 2, .dropout = 0.5}));
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
    dense = register_module("dense", torch::nn::Linear(6, 3));
    // Tied to the dense layer.
    tied = register_module("tied", torch::nn::Linear(6, 3));
    tied->weight = tied->register_parameter("weight2", dense->weight);
  }

  at::Tensor forward(const at::Tensor& image) {
    const at::Tensor x = conv->forward(image).flatten(2).transpose(1, 2);  // (batch, patches, 6)
    const auto mask = fovea::nn::AttentionMask::self(fovea::nn::SequenceLayout::full(x.size(0), x.size(1)));
    at::Tensor y = attention->forward(x, x, x, mask).mean(1);  // (batch, 6)
    // The tracer takes C++ ints for constants: the first breaks at another batch size, the second is silently wrong.
    if (fault == Fault::kFrozenShape) y = y + at::ones({image.size(0), 1});
    if (fault == Fault::kFrozenNumber) y = y + static_cast<double>(image.size(0));
    if (fault == Fault::kOwnOp) {
      const at::Tensor q = y.view({-1, 1, 1, 6});
      y = std::get<0>(fovea::ops::flash_attention(q, q, q)).flatten(1);
    }
    return dense->forward(norm->forward(y)) + tied->forward(y);
  }

  Fault fault;
  torch::nn::Conv2d conv{nullptr};
  fovea::nn::MultiHeadAttention attention{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear dense{nullptr}, tied{nullptr};
};
TORCH_MODULE(TinyImageNet);

class TinyImageModel : public fovea::train::Module, public fovea::classification::Classifier {
 public:
  explicit TinyImageModel(TinyImageNetImpl::Fault fault = TinyImageNetImpl::Fault::kNone) : net(fault) {}
  torch::nn::Module& network() override { return *net; }
  fovea::train::LossTerms training_step(const fovea::data::Batch& batch, int64_t) override {
    return validation_step(batch);
  }
  fovea::train::LossTerms validation_step(const fovea::data::Batch& batch) override {
    const fovea::classification::ImageBatch b(batch);
    return {{"loss", at::cross_entropy_loss(net->forward(b.image), b.label, {}, at::Reduction::Sum), batch.examples}};
  }
  std::vector<int64_t> loss_counts(const fovea::data::Batch& batch, int64_t) const override { return {batch.examples}; }
  at::Tensor logits(const fovea::data::Batch& batch, fovea::nn::AttentionRecorder* = nullptr) const override {
    return net.ptr()->forward(batch.tensor("image"));
  }
  TinyImageNet net;
};

inline fovea::classification::ImageAssets tiny_image_assets() {
  return {fovea::classification::ImageSpec(2, 9, 7, 3), {"boot", "été", "sac à main"}, {{0.25, 0.5}, {0.5, 0.125}}};
}
