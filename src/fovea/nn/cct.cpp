#include "fovea/nn/cct.h"

#include <torch/torch.h>

#include "fovea/nn/children.h"

namespace fovea::nn {

CCTImpl::CCTImpl(const CCTOptions& o) : rows_(o.image_height), columns_(o.image_width), dropout_(o.emb_dropout) {
  const int64_t n = o.block.num_hiddens;
  const auto convs = register_module("convs", std::make_shared<Children>());
  int64_t channels = o.channels;
  for (int64_t i = 0; i < o.num_convs; ++i) {
    // As the authors': 64 channels, doubled in each layer, the width of the blocks in the last.
    const int64_t out = i + 1 == o.num_convs ? n : 64 << std::min<int64_t>(i, 10);
    auto options = torch::nn::Conv2dOptions(channels, out, o.kernel_size).padding(o.kernel_size / 2).bias(false);
    convs_.push_back(convs->register_module(std::to_string(i), torch::nn::Conv2d(options)));
    torch::nn::init::kaiming_normal_(convs_.back()->weight);
    channels = out;
    rows_ = (rows_ + 1) / 2;
    columns_ = (columns_ + 1) / 2;
  }
  positions_.emplace(*this, TokenPositionsOptions{.num_hiddens = n,
                                                  .num_heads = o.block.num_heads,
                                                  .num_tokens = rows_ * columns_,
                                                  .positions = o.positions,
                                                  .std = 0.2});
  register_module("dropout", dropout_);
  const auto blks = register_module("blks", std::make_shared<Children>());
  blks_ = make_vit_blocks(*blks, o.num_blks, o.block);
  norm_ = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({n})));
  attention_pool_ = register_module("attention_pool", Linear(n, 1));
  head_ = register_module("head", Linear(n, o.num_classes));
}

at::Tensor CCTImpl::forward(const at::Tensor& image, AttentionRecorder* recorder) {
  at::Tensor x = image.contiguous(at::MemoryFormat::ChannelsLast);
  // The greatest of what a ReLU leaves is what it leaves of the greatest, of which there are a quarter as many.
  for (auto& conv : convs_) x = at::relu(at::max_pool2d(conv->forward(x), {3, 3}, {2, 2}, {1, 1}));
  x = x.flatten(2).transpose(1, 2).contiguous();  // (batch, tokens, num_hiddens)
  const AttentionMask mask = positions_->for_attention(AttentionMask::self(SequenceLayout::full(x)));
  x = dropout_->forward(positions_->add(x), mask.queries());
  for (auto& blk : blks_) x = blk->forward(x, mask, recorder);
  x = norm_->forward(x);
  const at::Tensor weights = at::softmax(attention_pool_->forward(x), 1).transpose(1, 2);  // (batch, 1, tokens)
  if (recorder != nullptr) recorder->add("attention_pool", weights.unsqueeze(1));
  return head_->forward(at::matmul(weights, x).squeeze(1));
}

}  // namespace fovea::nn
