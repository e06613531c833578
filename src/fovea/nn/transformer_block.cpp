#include "fovea/nn/transformer_block.h"

#include <torch/torch.h>

namespace fovea::nn {
namespace {

MultiHeadAttention attention(const TransformerBlockOptions& o) {
  return MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = o.num_hiddens,
                                                      .num_heads = o.num_heads,
                                                      .dropout = o.dropout,
                                                      .use_bias = o.use_bias,
                                                      .path = o.attention});
}

}  // namespace

PositionWiseFFNImpl::PositionWiseFFNImpl(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_outputs) {
  dense1_ = register_module("dense1", Linear(num_hiddens, ffn_num_hiddens));
  dense2_ = register_module("dense2", Linear(ffn_num_hiddens, num_outputs));
}

at::Tensor PositionWiseFFNImpl::forward(const at::Tensor& x) {
  return dense2_->forward(at::relu(dense1_->forward(x)));
}

AddNormImpl::AddNormImpl(int64_t num_hiddens, double dropout) : dropout_(dropout) {
  register_module("dropout", dropout_);
  ln_ = register_module("ln", torch::nn::LayerNorm(torch::nn::LayerNormOptions({num_hiddens})));
}

at::Tensor AddNormImpl::forward(const at::Tensor& x, const at::Tensor& y, const SequenceLayout& layout) {
  return ln_->forward(dropout_->forward(y, layout) + x);
}

TransformerEncoderBlockImpl::TransformerEncoderBlockImpl(const TransformerBlockOptions& o) {
  attention_ = register_module("attention", attention(o));
  addnorm1_ = register_module("addnorm1", AddNorm(o.num_hiddens, o.dropout));
  ffn_ = register_module("ffn", PositionWiseFFN(o.num_hiddens, o.ffn_num_hiddens, o.num_hiddens));
  addnorm2_ = register_module("addnorm2", AddNorm(o.num_hiddens, o.dropout));
}

at::Tensor TransformerEncoderBlockImpl::forward(const at::Tensor& x, const AttentionMask& mask,
                                                AttentionRecorder* recorder) {
  const SequenceLayout& layout = mask.queries();
  const at::Tensor y = addnorm1_->forward(x, attention_->forward(x, x, x, mask, recorder), layout);
  return addnorm2_->forward(y, ffn_->forward(y), layout);
}

TransformerDecoderBlockImpl::TransformerDecoderBlockImpl(const TransformerBlockOptions& o) {
  attention1_ = register_module("attention1", attention(o));
  addnorm1_ = register_module("addnorm1", AddNorm(o.num_hiddens, o.dropout));
  attention2_ = register_module("attention2", attention(o));
  addnorm2_ = register_module("addnorm2", AddNorm(o.num_hiddens, o.dropout));
  ffn_ = register_module("ffn", PositionWiseFFN(o.num_hiddens, o.ffn_num_hiddens, o.num_hiddens));
  addnorm3_ = register_module("addnorm3", AddNorm(o.num_hiddens, o.dropout));
}

at::Tensor TransformerDecoderBlockImpl::forward(const at::Tensor& x, const AttentionMask& self_mask,
                                                const at::Tensor& encoded, const AttentionMask& cross_mask,
                                                AttentionRecorder* recorder) {
  const SequenceLayout& layout = self_mask.queries();
  const at::Tensor y = addnorm1_->forward(x, attention1_->forward(x, x, x, self_mask, recorder), layout);
  const at::Tensor z = addnorm2_->forward(y, attention2_->forward(y, encoded, encoded, cross_mask, recorder), layout);
  return addnorm3_->forward(z, ffn_->forward(z), layout);
}

Cache TransformerDecoderBlockImpl::make_cache(const at::Tensor& encoded, const SequenceLayout& encoded_layout,
                                              const Size& max_steps) {
  Cache cross = attention2_->make_cross_cache(encoded, encoded_layout);
  Cache cache = attention1_->make_cache(cross.front(), max_steps);  // in the dtype of projected keys
  append(cache, std::move(cross));
  return cache;
}

at::Tensor TransformerDecoderBlockImpl::step(const at::Tensor& x, CacheCursor& cache, const AttentionMask& self_mask,
                                             AttentionRecorder* recorder) {
  const SequenceLayout& layout = self_mask.queries();
  const at::Tensor y = addnorm1_->forward(x, attention1_->step(x, cache, self_mask, recorder), layout);
  const at::Tensor z = addnorm2_->forward(y, attention2_->cross_step(y, cache, recorder), layout);
  return addnorm3_->forward(z, ffn_->forward(z), layout);
}

}  // namespace fovea::nn
