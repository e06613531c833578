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

}  // namespace

AttentionModule::AttentionModule(double dropout, AttentionPath path) : dropout_(dropout), path_(path) {
  register_module("dropout", dropout_);
}

// A traced graph is to run without this library, so it is made of torch's own ops.
bool AttentionModule::takes_flash(const at::Tensor& q, int64_t head_dim, int64_t value_dim,
                                  const AttentionRecorder* recorder) const {
  constexpr int64_t kWidest = 256;
  return path_ == AttentionPath::kFlash && recorder == nullptr && std::max(head_dim, value_dim) <= kWidest &&
         std::min(head_dim, value_dim) >= 1 && ops::has_flash_attention(q.device().type()) && !is_tracing();
}

at::Tensor AttentionModule::dot_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        const AttentionMask& mask, AttentionRecorder* recorder) {
  if (takes_flash(q, q.size(-1), v.size(-1), recorder)) return flash(q, k, v, mask);
  // The smaller of the two factors takes the scale: queries are as many as the outputs, scores are queries x keys.
  const at::Tensor scores = at::matmul(q / std::sqrt(static_cast<double>(q.size(-1))), k.transpose(-2, -1));
  return weighted_sum(scores, v, mask, recorder);
}

at::Tensor AttentionModule::flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const AttentionMask& mask) const {
  ops::FlashAttentionArguments arguments = mask.flash_arguments(q);
  arguments.dropout_p = dropout_->active_p();
  arguments.rng = dropout_->active_key();
  return std::get<0>(ops::flash_attention(q, k, v, arguments));
}

at::Tensor AttentionModule::weighted_sum(const at::Tensor& scores, const at::Tensor& values, const AttentionMask& mask,
                                         AttentionRecorder* recorder) {
  return apply_weights(masked_softmax(scores, mask), values, recorder);  // weights (batch, heads, queries, keys)
}

at::Tensor AttentionModule::apply_weights(const at::Tensor& weights, const at::Tensor& values,
                                          AttentionRecorder* recorder) {
  if (recorder != nullptr) recorder->add(record_name_, weights);
  return at::matmul(dropout_->forward(weights), values);  // (batch, heads, queries, d_v)
}

DotProductAttentionImpl::DotProductAttentionImpl(double dropout, AttentionPath path) : AttentionModule(dropout, path) {}

at::Tensor DotProductAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                            const AttentionMask& mask, AttentionRecorder* recorder) {
  const at::Tensor q = mask.queries().zero_padding(queries).unsqueeze(1);  // (batch, 1, queries, d)
  const at::Tensor k = mask.keys().zero_padding(keys).unsqueeze(1);
  const at::Tensor v = mask.keys().zero_padding(values).unsqueeze(1);
  return dot_product(mask.turn_queries(q), mask.turn_keys(k), v, mask, recorder).squeeze(1);
}

AdditiveAttentionImpl::AdditiveAttentionImpl(int64_t query_size, int64_t key_size, int64_t num_hiddens, double dropout)
    : AttentionModule(dropout, AttentionPath::kPlain) {
  W_k_ = register_module("W_k", make_linear(key_size, num_hiddens, false));
  W_q_ = register_module("W_q", make_linear(query_size, num_hiddens, false));
  w_v_ = register_module("w_v", make_linear(num_hiddens, 1, false));
}

at::Tensor AdditiveAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                          const AttentionMask& mask, AttentionRecorder* recorder) {
  if (mask.rotary()) fail("additive attention has no dot product in which rotary positions would show");
  const at::Tensor q =
      W_q_->forward(mask.queries().zero_padding(queries)).unsqueeze(2);               // (batch, queries, 1, hiddens)
  const at::Tensor k = W_k_->forward(mask.keys().zero_padding(keys)).unsqueeze(1);    // (batch, 1, keys, hiddens)
  const at::Tensor scores = w_v_->forward(at::tanh(q + k)).squeeze(-1).unsqueeze(1);  // (batch, 1, queries, keys)
  const at::Tensor v = mask.keys().zero_padding(values).unsqueeze(1);
  return weighted_sum(scores, v, mask, recorder).squeeze(1);
}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options)
    : AttentionModule(options.dropout, options.path), num_heads_(options.num_heads) {
  const int64_t n = options.num_hiddens;
  if (n < 1 || num_heads_ < 1 || n % num_heads_ != 0) {
    fail("multi-head attention: num_hiddens must be divisible by num_heads, got {} and {}", n, num_heads_);
  }
  head_dim_ = n / num_heads_;
  W_q_ = register_module("W_q", make_linear(n, n, options.use_bias));
  W_k_ = register_module("W_k", make_linear(n, n, options.use_bias));
  W_v_ = register_module("W_v", make_linear(n, n, options.use_bias));
  W_o_ = register_module("W_o", make_linear(n, n, options.use_bias));
  if (options.learned_scale) {
    scale_ = register_parameter("scale", at::full({num_heads_}, 1 / std::sqrt(static_cast<double>(head_dim_))));
  }
}

at::Tensor MultiHeadAttentionImpl::scaled(const at::Tensor& projected) const {
  if (!scale_.defined()) return projected;
  // The attention itself divides by sqrt(d).
  const at::Tensor factor = scale_ * std::sqrt(static_cast<double>(head_dim_));
  return (projected.unflatten(-1, {num_heads_, -1}) * factor.unsqueeze(-1)).flatten(-2);
}

std::vector<at::Tensor> AttentionModule::project_together(const at::Tensor& x, const std::vector<Linear>& projections) {
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

at::Tensor MultiHeadAttentionImpl::project_queries(const at::Tensor& queries, const SequenceLayout& layout) {
  return split_heads(W_q_->forward(layout.zero_padding(queries)), layout);
}

at::Tensor MultiHeadAttentionImpl::attend(const at::Tensor& q, const KeyValue& kv, const AttentionMask& mask,
                                          AttentionRecorder* recorder) {
  const at::Tensor out =
      dot_product(q, kv.keys, kv.values, mask, recorder).transpose(1, 2).flatten(2);  // (batch, queries, num_hiddens)
  return W_o_->forward(mask.queries().is_packed() ? mask.queries().pack(out) : out);
}

at::Tensor MultiHeadAttentionImpl::attend_packed(const std::vector<at::Tensor>& projected, const AttentionMask& mask) {
  const auto heads = [this](const at::Tensor& x) { return x.unflatten(-1, {num_heads_, -1}); };
  const at::Tensor out = flash(mask.turn_queries(heads(projected[0])), mask.turn_keys(heads(projected[1])),
                               heads(projected[2]), mask);  // (total, heads, head_dim)
  return W_o_->forward(out.flatten(1));                     // (total, num_hiddens)
}

at::Tensor MultiHeadAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                           const AttentionMask& mask, AttentionRecorder* recorder) {
  // Zeros are selected before the projections, so that NaN in the padding cannot reach their gradients either.
  const at::Tensor k = mask.keys().zero_padding(keys);
  const at::Tensor v = values.is_same(keys) ? k : mask.keys().zero_padding(values);
  auto projected = project_all(mask.queries().zero_padding(queries), k, v);
  projected[0] = scaled(projected[0]);
  if (mask.fits_packed() && takes_flash(queries, head_dim_, head_dim_, recorder)) {
    return attend_packed(projected, mask);
  }
  return attend(mask.turn_queries(split_heads(projected[0], mask.queries())),
                {mask.turn_keys(split_heads(projected[1], mask.keys())), split_heads(projected[2], mask.keys())}, mask,
                recorder);
}

Cache MultiHeadAttentionImpl::make_cache(const at::Tensor& like, const Size& max_steps) const {
  const std::vector<Size> sizes = {Size::of(like, 0), num_heads_, max_steps, head_dim_};
  return {new_zeros(like, sizes), new_zeros(like, sizes)};
}

at::Tensor MultiHeadAttentionImpl::step(const at::Tensor& x, CacheCursor& cache, const AttentionMask& mask,
                                        AttentionRecorder* recorder) {
  const at::Tensor &keys = cache.next(), &values = cache.next();
  const Size &now = mask.queries().traced_steps(), &seen = mask.keys().traced_steps();
  const Size first = seen - now;
  const auto projected = project_keys(x, x);
  narrow(keys, 2, first, now).copy_(mask.turn_queries(split_heads(projected[0], mask.queries())));
  narrow(values, 2, first, now).copy_(split_heads(projected[1], mask.queries()));
  const at::Tensor q = mask.turn_queries(project_queries(x, mask.queries()));
  return attend(q, {narrow(keys, 2, 0, seen), narrow(values, 2, 0, seen)}, mask, recorder);
}

Cache MultiHeadAttentionImpl::make_cross_cache(const at::Tensor& encoded, const SequenceLayout& layout) {
  const at::Tensor x = layout.zero_padding(encoded);
  const auto projected = project_keys(x, x);
  // Beam search reorders rows; contiguous ones are copied in one piece.
  return {split_heads(projected[0], layout).contiguous(), split_heads(projected[1], layout).contiguous(),
          layout.lengths()};
}

at::Tensor MultiHeadAttentionImpl::cross_step(const at::Tensor& queries, CacheCursor& cache,
                                              AttentionRecorder* recorder) {
  const at::Tensor &keys = cache.next(), &values = cache.next(), &lengths = cache.next();
  const auto mask =
      AttentionMask::cross(SequenceLayout::full(queries), SequenceLayout::padded(lengths, Size::of(keys, 2)));
  return attend(project_queries(queries, mask.queries()), {keys, values}, mask, recorder);
}

}  // namespace fovea::nn
