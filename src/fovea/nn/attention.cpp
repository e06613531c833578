#include "fovea/nn/attention.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/masked_softmax.h"
#include "fovea/nn/size.h"
#include "fovea/ops/flash_attention.h"

namespace fovea::nn {
namespace {

Linear make_linear(int64_t in, int64_t out, bool bias) {
  return Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

at::Tensor weighted_sum(const at::Tensor& scores, const at::Tensor& values, const AttentionMask& mask, Dropout& dropout,
                        AttentionRecorder* recorder) {
  const at::Tensor weights = masked_softmax(scores, mask);  // (batch, heads, queries, keys)
  if (recorder != nullptr) recorder->add(weights);
  return at::matmul(dropout->forward(weights), values);  // (batch, heads, queries, d_v)
}

// A traced graph is to run without this library, so it is made of torch's own ops.
bool takes_flash(AttentionPath path, const at::Tensor& q, int64_t head_dim, int64_t value_dim,
                 const AttentionRecorder* recorder) {
  constexpr int64_t kWidest = 256;
  return path == AttentionPath::kFlash && recorder == nullptr && std::max(head_dim, value_dim) <= kWidest &&
         std::min(head_dim, value_dim) >= 1 && ops::has_flash_attention(q.device().type()) && !is_tracing();
}

// The mask of padded tensors as the op takes it.
ops::FlashAttentionArguments flash_arguments(const AttentionMask& mask, const Dropout& dropout) {
  ops::FlashAttentionArguments arguments;
  arguments.causal = mask.causal;
  if (!mask.queries.all_valid()) arguments.query_lens = mask.queries.lengths();
  if (!mask.keys.all_valid()) arguments.valid_lens = mask.keys.lengths();
  if (mask.valid_lens.defined()) {
    const at::Tensor& each = mask.valid_lens;  // (batch, queries)
    arguments.valid_lens =
        arguments.valid_lens.defined() ? at::minimum(each, arguments.valid_lens.unsqueeze(-1)) : each;
  }
  arguments.dropout_p = dropout->active_p();
  arguments.rng = dropout->active_key();
  return arguments;
}

}  // namespace

at::Tensor dot_product_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionMask& mask, Dropout dropout, AttentionRecorder* recorder,
                                 AttentionPath path) {
  if (takes_flash(path, q, q.size(-1), v.size(-1), recorder)) {
    return std::get<0>(ops::flash_attention(q, k, v, flash_arguments(mask, dropout)));
  }
  // The smaller of the two factors takes the scale: queries are as many as the outputs, scores are queries x keys.
  const at::Tensor scores = at::matmul(q / std::sqrt(static_cast<double>(q.size(-1))), k.transpose(-2, -1));
  return weighted_sum(scores, v, mask, dropout, recorder);
}

DotProductAttentionImpl::DotProductAttentionImpl(double dropout, AttentionPath path) : dropout_(dropout), path_(path) {
  register_module("dropout", dropout_);
}

at::Tensor DotProductAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                            const AttentionMask& mask, AttentionRecorder* recorder) {
  const at::Tensor q = mask.queries.zero_padding(queries).unsqueeze(1);  // (batch, 1, queries, d)
  const at::Tensor k = mask.keys.zero_padding(keys).unsqueeze(1);
  const at::Tensor v = mask.keys.zero_padding(values).unsqueeze(1);
  return dot_product_attention(q, k, v, mask, dropout_, recorder, path_).squeeze(1);
}

AdditiveAttentionImpl::AdditiveAttentionImpl(int64_t query_size, int64_t key_size, int64_t num_hiddens, double dropout)
    : dropout_(dropout) {
  W_k_ = register_module("W_k", make_linear(key_size, num_hiddens, false));
  W_q_ = register_module("W_q", make_linear(query_size, num_hiddens, false));
  w_v_ = register_module("w_v", make_linear(num_hiddens, 1, false));
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
    : num_heads_(options.num_heads), path_(options.path), dropout_(options.dropout) {
  const int64_t n = options.num_hiddens;
  if (num_heads_ < 1 || n % num_heads_ != 0) {
    fail("multi-head attention: num_hiddens must be divisible by num_heads, got {} and {}", n, num_heads_);
  }
  register_module("dropout", dropout_);
  W_q_ = register_module("W_q", make_linear(n, n, options.use_bias));
  W_k_ = register_module("W_k", make_linear(n, n, options.use_bias));
  W_v_ = register_module("W_v", make_linear(n, n, options.use_bias));
  W_o_ = register_module("W_o", make_linear(n, n, options.use_bias));
}

std::vector<at::Tensor> MultiHeadAttentionImpl::project_together(const at::Tensor& x,
                                                                 const std::vector<Linear>& projections) const {
  const int64_t n = projections.front()->options.out_features();
  std::vector<at::Tensor> projected;
  // Gathering the weights costs as much as a product with as many rows as there are hiddens saves.
  if (x.numel() < n * n || is_tracing()) {
    for (auto projection : projections) projected.push_back(projection->forward(x));
    return projected;
  }
  std::vector<at::Tensor> weights, biases;
  for (const auto& projection : projections) {
    weights.push_back(projection->weight);
    if (projection->bias.defined()) biases.push_back(projection->bias);
  }
  const at::Tensor bias = biases.empty() ? at::Tensor() : at::cat(biases);
  return linear(x, at::cat(weights), bias).split(n, -1);  // (..., num_hiddens) each
}

at::Tensor MultiHeadAttentionImpl::split_heads(const at::Tensor& x, const SequenceLayout& layout) const {
  const at::Tensor padded = layout.is_packed() ? layout.pad(x) : x;  // (batch, steps, num_hiddens)
  return padded.unflatten(-1, {num_heads_, -1}).transpose(1, 2);     // (batch, heads, steps, head_dim)
}

std::vector<at::Tensor> MultiHeadAttentionImpl::project_keys(const at::Tensor& keys, const at::Tensor& values) {
  if (values.is_same(keys)) return project_together(keys, {W_k_, W_v_});
  return {W_k_->forward(keys), W_v_->forward(values)};
}

std::vector<at::Tensor> MultiHeadAttentionImpl::project_all(const at::Tensor& queries, const at::Tensor& keys,
                                                            const at::Tensor& values) {
  if (queries.is_same(keys) && keys.is_same(values)) return project_together(queries, {W_q_, W_k_, W_v_});
  auto projected = project_keys(keys, values);
  projected.insert(projected.begin(), W_q_->forward(queries));
  return projected;
}

KeyValue MultiHeadAttentionImpl::project(const at::Tensor& keys, const at::Tensor& values,
                                         const SequenceLayout& layout) {
  const at::Tensor k = layout.zero_padding(keys);
  const auto kv = project_keys(k, values.is_same(keys) ? k : layout.zero_padding(values));
  return {split_heads(kv[0], layout), split_heads(kv[1], layout)};
}

at::Tensor MultiHeadAttentionImpl::attend(const at::Tensor& queries, const KeyValue& kv, const AttentionMask& mask,
                                          AttentionRecorder* recorder) {
  const at::Tensor q = split_heads(W_q_->forward(mask.queries.zero_padding(queries)), mask.queries);
  return attend_heads(q, kv, mask, recorder);
}

at::Tensor MultiHeadAttentionImpl::attend_heads(const at::Tensor& q, const KeyValue& kv, const AttentionMask& mask,
                                                AttentionRecorder* recorder) {
  const at::Tensor out = dot_product_attention(q, kv.keys, kv.values, mask, dropout_, recorder, path_)
                             .transpose(1, 2)
                             .flatten(2);  // (batch, queries, num_hiddens)
  return W_o_->forward(mask.queries.is_packed() ? mask.queries.pack(out) : out);
}

at::Tensor MultiHeadAttentionImpl::attend_packed(const std::vector<at::Tensor>& projected, const AttentionMask& mask) {
  const auto heads = [this](const at::Tensor& x) { return x.unflatten(-1, {num_heads_, -1}); };
  ops::FlashAttentionArguments arguments;
  arguments.query_offsets = mask.queries.offsets().to(projected[0].device());
  arguments.key_offsets = mask.keys.offsets().to(projected[1].device());
  arguments.max_query = mask.queries.steps();
  arguments.max_key = mask.keys.steps();
  arguments.causal = mask.causal;
  arguments.dropout_p = dropout_->active_p();
  arguments.rng = dropout_->active_key();
  const at::Tensor out = std::get<0>(ops::flash_attention(heads(projected[0]), heads(projected[1]), heads(projected[2]),
                                                          arguments));  // (total, heads, head_dim)
  return W_o_->forward(out.flatten(1));                                 // (total, num_hiddens)
}

at::Tensor MultiHeadAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                           const AttentionMask& mask, AttentionRecorder* recorder) {
  // Zeros are selected before the projections, so that NaN in the padding cannot reach their gradients either.
  const at::Tensor k = mask.keys.zero_padding(keys);
  const at::Tensor v = values.is_same(keys) ? k : mask.keys.zero_padding(values);
  const auto projected = project_all(mask.queries.zero_padding(queries), k, v);
  const int64_t head_dim = W_q_->options.out_features() / num_heads_;
  // A causal mask of packed sequences is aligned by their own lengths in the op, by the layouts' steps here: the same
  // where both sides have the same lengths, as in self-attention.
  const bool aligned = !mask.causal || (mask.queries.host_lengths() == mask.keys.host_lengths() &&
                                        mask.queries.steps() == mask.keys.steps());
  if (mask.queries.is_packed() && mask.keys.is_packed() && aligned && !mask.valid_lens.defined() &&
      takes_flash(path_, queries, head_dim, head_dim, recorder)) {
    return attend_packed(projected, mask);
  }
  return attend_heads(split_heads(projected[0], mask.queries),
                      {split_heads(projected[1], mask.keys), split_heads(projected[2], mask.keys)}, mask, recorder);
}

}  // namespace fovea::nn
