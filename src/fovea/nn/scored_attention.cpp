#include "fovea/nn/scored_attention.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/masked_softmax.h"

namespace fovea::nn {
namespace {

constexpr double kFirstScale = 10.0;  // of a cosine: one key can then win over a sentence of others

Linear without_bias(int64_t in, int64_t out) {
  return Linear(torch::nn::LinearOptions(in, out).bias(false));
}

at::Tensor unit_length(const at::Tensor& x) {
  return x / x.square().sum(-1, true).clamp_min(1e-12).sqrt();
}

}  // namespace

ScoredAttentionImpl::ScoredAttentionImpl(const ScoredAttentionOptions& o)
    : AttentionModule(o.dropout, AttentionPath::kPlain), options_(o) {
  const bool same_size = o.score == Score::kDot || o.score == Score::kScaledDot || o.score == Score::kCosine;
  if (same_size && o.query_size != o.key_size) {
    fail("attention: a {} score needs queries and keys of one size, got {} and {}", name_of(o.score), o.query_size,
         o.key_size);
  }
  if (o.score == Score::kAdditive) {
    W_k_ = register_module("W_k", without_bias(o.key_size, o.num_hiddens));
    W_q_ = register_module("W_q", without_bias(o.query_size, o.num_hiddens));
    w_v_ = register_module("w_v", without_bias(o.num_hiddens, 1));
  } else if (o.score == Score::kGeneral) {
    W_k_ = register_module("W_k", without_bias(o.key_size, o.query_size));
  } else if (o.score == Score::kCosine) {
    scale_ = register_parameter("scale", at::full({1}, kFirstScale));
  } else if (o.score == Score::kLocation) {
    W_l_ = register_module("W_l", Linear(o.query_size, o.max_keys));
  }
  if (o.local_width > 0) {
    W_p_ = register_module("W_p", without_bias(o.query_size, o.query_size));
    v_p_ = register_module("v_p", without_bias(o.query_size, 1));
  }
}

at::Tensor ScoredAttentionImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                        const AttentionMask& mask, AttentionRecorder* recorder) {
  return attend(mask.queries().zero_padding(queries), project_keys(keys, mask.keys()), mask.keys().zero_padding(values),
                mask, recorder);
}

at::Tensor ScoredAttentionImpl::project_keys(const at::Tensor& keys, const SequenceLayout& layout) {
  const at::Tensor k = layout.zero_padding(keys);
  if (options_.score == Score::kCosine) return unit_length(k);
  return W_k_.is_empty() ? k : W_k_->forward(k);
}

at::Tensor ScoredAttentionImpl::scores(const at::Tensor& queries, const at::Tensor& keys) {
  const auto dot = [&](const at::Tensor& q) { return at::matmul(q, keys.transpose(1, 2)); };
  switch (options_.score) {
    case Score::kAdditive:
      return w_v_->forward(at::tanh(W_q_->forward(queries).unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1);
    case Score::kScaledDot:
      return dot(queries / std::sqrt(static_cast<double>(queries.size(-1))));
    case Score::kCosine:
      return dot(unit_length(queries) * scale_);
    // The number of keys out of the keys themselves: a traced graph must not take it for a constant.
    case Score::kLocation: {
      const at::Tensor ones = at::ones_like(keys.select(2, 0), keys.options().dtype(at::kLong));  // (batch, keys)
      const at::Tensor rows = at::zeros_like(queries.narrow(2, 0, 1), queries.options().dtype(at::kLong));
      return at::gather(W_l_->forward(queries), 2, (at::cumsum(ones, 1) - 1).unsqueeze(1) + rows);
    }
    default:
      return dot(queries);
  }
}

at::Tensor ScoredAttentionImpl::weights(const at::Tensor& scores, const AttentionMask& mask) const {
  if (options_.weights == ScoreWeights::kRelu) {
    at::Tensor positive = at::relu(scores);
    if (mask.bias().defined()) positive = at::relu(scores + mask.bias());
    const at::Tensor& allowed = mask.allowed();
    if (!allowed.defined()) return positive / at::ones_like(scores).sum(-1, true);
    const at::Tensor seen = allowed.expand_as(scores);
    return positive.masked_fill(seen.logical_not(), 0) / seen.sum(-1, true).clamp_min(1);
  }
  const at::Tensor soft = masked_softmax(scores, mask);
  if (options_.weights == ScoreWeights::kSoftmax) return soft;
  const at::Tensor best = at::zeros_like(soft).scatter(-1, soft.argmax(-1, true), 1.0) * soft.sum(-1, true).gt(0);
  return is_training() ? best + soft - soft.detach() : best;
}

at::Tensor ScoredAttentionImpl::window(const at::Tensor& queries, const AttentionMask& mask) {
  const auto width = static_cast<double>(options_.local_width);
  const at::Tensor lengths = mask.keys().lengths().to(queries.scalar_type()).view({-1, 1, 1});
  const at::Tensor centre = at::sigmoid(v_p_->forward(at::tanh(W_p_->forward(queries)))) * lengths;  // (batch, q, 1)
  const at::Tensor distance = mask.keys().row_positions().to(queries.scalar_type()) - centre;        // (batch, q, keys)
  const at::Tensor gauss = at::exp(-distance.square() / (2 * (width / 2) * (width / 2)));
  return (gauss * distance.abs().le(width)).unsqueeze(1);
}

at::Tensor ScoredAttentionImpl::attend(const at::Tensor& queries, const at::Tensor& projected_keys,
                                       const at::Tensor& values, const AttentionMask& mask,
                                       AttentionRecorder* recorder) {
  if (mask.rotary()) fail("attention with a {} score knows no rotary positions", name_of(options_.score));
  at::Tensor w = weights(scores(queries, projected_keys).unsqueeze(1), mask);  // (batch, 1, queries, keys)
  if (options_.local_width > 0) w = w * window(queries, mask);
  return apply_weights(w, values.unsqueeze(1), recorder).squeeze(1);
}

}  // namespace fovea::nn
