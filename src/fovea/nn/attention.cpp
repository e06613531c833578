#include "fovea/nn/attention.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/masked_softmax.h"

namespace fovea::nn {
namespace {

torch::nn::Linear linear(int64_t in, int64_t out, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

at::Tensor weighted_sum(const at::Tensor& scores, const at::Tensor& values, const AttentionMask& mask, Dropout& dropout,
                        AttentionRecorder* recorder) {
  const at::Tensor weights = masked_softmax(scores, mask);  // (batch, heads, queries, keys)
  if (recorder != nullptr) recorder->add(weights);
  return at::matmul(dropout->forward(weights), values);  // (batch, heads, queries, d_v)
}

}  // namespace

at::Tensor dot_product_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionMask& mask, Dropout dropout, AttentionRecorder* recorder) {
  // The smaller of the two factors takes the scale: queries are as many as the outputs, scores are queries x keys.
  const at::Tensor scores = at::matmul(q / std::sqrt(static_cast<double>(q.size(-1))), k.transpose(-2, -1));
  return weighted_sum(scores, v, mask, dropout, recorder);
}

DotProductAttentionImpl::DotProductAttentionImpl(double dropout) : dropout_(dropout) {
  register_module("dropout", dropout_);
}

at::Tensor DotProductAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                            const AttentionMask& mask, AttentionRecorder* recorder) {
  const at::Tensor q = mask.queries.zero_padding(queries).unsqueeze(1);  // (batch, 1, queries, d)
  const at::Tensor k = mask.keys.zero_padding(keys).unsqueeze(1);
  const at::Tensor v = mask.keys.zero_padding(values).unsqueeze(1);
  return dot_product_attention(q, k, v, mask, dropout_, recorder).squeeze(1);
}

AdditiveAttentionImpl::AdditiveAttentionImpl(int64_t query_size, int64_t key_size, int64_t num_hiddens, double dropout)
    : dropout_(dropout) {
  W_k_ = register_module("W_k", linear(key_size, num_hiddens, false));
  W_q_ = register_module("W_q", linear(query_size, num_hiddens, false));
  w_v_ = register_module("w_v", linear(num_hiddens, 1, false));
  register_module("dropout", dropout_);
}

at::Tensor AdditiveAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                          const AttentionMask& mask, AttentionRecorder* recorder) {
  const at::Tensor q = W_q_->forward(mask.queries.zero_padding(queries)).unsqueeze(2);  // (batch, queries, 1, hiddens)
  const at::Tensor k = W_k_->forward(mask.keys.zero_padding(keys)).unsqueeze(1);        // (batch, 1, keys, hiddens)
  const at::Tensor scores = w_v_->forward(at::tanh(q + k)).squeeze(-1).unsqueeze(1);    // (batch, 1, queries, keys)
  const at::Tensor v = mask.keys.zero_padding(values).unsqueeze(1);
  return weighted_sum(scores, v, mask, dropout_, recorder).squeeze(1);
}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options)
    : num_heads_(options.num_heads), dropout_(options.dropout) {
  const int64_t n = options.num_hiddens;
  if (num_heads_ < 1 || n % num_heads_ != 0) {
    fail("multi-head attention: num_hiddens must be divisible by num_heads, got {} and {}", n, num_heads_);
  }
  register_module("dropout", dropout_);
  W_q_ = register_module("W_q", linear(n, n, options.use_bias));
  W_k_ = register_module("W_k", linear(n, n, options.use_bias));
  W_v_ = register_module("W_v", linear(n, n, options.use_bias));
  W_o_ = register_module("W_o", linear(n, n, options.use_bias));
}

at::Tensor MultiHeadAttentionImpl::split_heads(const at::Tensor& x, const SequenceLayout& layout) const {
  const at::Tensor padded = layout.is_packed() ? layout.pad(x) : x;  // (batch, steps, num_hiddens)
  return padded.unflatten(-1, {num_heads_, -1}).transpose(1, 2);     // (batch, heads, steps, head_dim)
}

KeyValue MultiHeadAttentionImpl::project(const at::Tensor& keys, const at::Tensor& values,
                                         const SequenceLayout& layout) {
  // Zeros are selected before the projection, so that NaN in the padding cannot reach W_k's gradient either.
  const at::Tensor k = layout.zero_padding(keys);
  const at::Tensor v = values.is_same(keys) ? k : layout.zero_padding(values);
  return {split_heads(W_k_->forward(k), layout), split_heads(W_v_->forward(v), layout)};
}

at::Tensor MultiHeadAttentionImpl::attend(const at::Tensor& queries, const KeyValue& kv, const AttentionMask& mask,
                                          AttentionRecorder* recorder) {
  const at::Tensor q = split_heads(W_q_->forward(mask.queries.zero_padding(queries)), mask.queries);
  const at::Tensor out = dot_product_attention(q, kv.keys, kv.values, mask, dropout_, recorder)
                             .transpose(1, 2)
                             .flatten(2);  // (batch, queries, num_hiddens)
  return W_o_->forward(mask.queries.is_packed() ? mask.queries.pack(out) : out);
}

at::Tensor MultiHeadAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                           const AttentionMask& mask, AttentionRecorder* recorder) {
  return attend(queries, project(keys, values, mask.keys), mask, recorder);
}

}  // namespace fovea::nn
