#include "fovea/nn/positional_encoding.h"

#include <torch/torch.h>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

constexpr int64_t kT5Buckets = 32, kT5Farthest = 128;  // as the paper's

at::Tensor sinusoids(int64_t max_len, int64_t num_hiddens) {
  const at::Tensor even = torch::arange(0, num_hiddens, 2, torch::kFloat32);
  const at::Tensor angle = torch::arange(max_len, torch::kFloat32).unsqueeze(1) /
                           torch::pow(10000, even / static_cast<double>(num_hiddens));  // (max_len, ceil(hiddens / 2))
  // Interleave sin and cos; an odd width has one cosine less.
  return torch::stack({angle.sin(), angle.cos()}, -1).flatten(1).narrow(1, 0, num_hiddens).unsqueeze(0).contiguous();
}

}  // namespace

PositionalEncodingImpl::PositionalEncodingImpl(const PositionalEncodingOptions& options)
    : options_(options), dropout_(options.dropout) {
  register_module("dropout", dropout_);
  switch (options.positions) {
    case Positions::kSinusoidal:
      P_ = register_buffer("P", sinusoids(options.max_len, options.num_hiddens));
      break;
    case Positions::kLearned:
      P_ = register_parameter("P", torch::randn({1, options.max_len, options.num_hiddens}) * 0.02);
      break;
    case Positions::kRotary:
      if (options.num_hiddens / options.num_heads % 2 != 0) {
        fail_usage("rotary positions turn pairs: num_hiddens / num_heads must be even, got {} / {}",
                   options.num_hiddens, options.num_heads);
      }
      break;
    case Positions::kT5:
      bias_ = register_parameter("relative_attention_bias", at::randn({kT5Buckets, options.num_heads}) * 0.02);
      break;
    case Positions::kNone:
    case Positions::kAlibi:
      break;
  }
}

void PositionalEncodingImpl::check_length(int64_t steps) const {
  if (steps > max_len()) {
    fail("positional encoding: a sequence has {}, the table {} (model.max_len)", counted(steps, "token"),
         counted(max_len(), "position"));
  }
}

at::Tensor PositionalEncodingImpl::forward(const at::Tensor& x, const SequenceLayout& layout) {
  if (!is_added()) return dropout_->forward(x, layout);
  check_length(layout.steps());
  const at::Tensor encoding = layout.is_packed()
                                  ? P_.squeeze(0).index_select(0, layout.positions())  // (total, hiddens)
                                  : narrow(P_, 1, 0, layout.traced_steps());           // (1, steps, hiddens)
  return dropout_->forward(x + encoding, layout);
}

at::Tensor PositionalEncodingImpl::step(const at::Tensor& x, const Size& position) const {
  if (!is_added()) return x;
  check_length(position.value() + 1);
  return x + narrow(P_, 1, position, 1);
}

AttentionMask PositionalEncodingImpl::for_attention(const AttentionMask& mask) const {
  if (options_.positions == Positions::kRotary) return mask.with_rotary();
  if (options_.positions == Positions::kAlibi) return mask.with_alibi(options_.num_heads);
  if (options_.positions != Positions::kT5) return mask;
  const at::Tensor buckets = t5_buckets(mask.distances(), options_.looks_ahead, kT5Buckets, kT5Farthest);
  return mask.with_bias(at::embedding(bias_, buckets).permute({2, 0, 1}).unsqueeze(0));  // (1, heads, queries, keys)
}

TokenPositions::TokenPositions(torch::nn::Module& model, const TokenPositionsOptions& o)
    : positions_(o.positions), num_tokens_(o.num_tokens) {
  if (positions_ == Positions::kLearned) {
    learned_ = model.register_parameter("pos_embedding", at::randn({1, o.num_tokens, o.num_hiddens}) * o.std);
    return;
  }
  encoding_ = model.register_module("pos_encoding", PositionalEncoding(PositionalEncodingOptions{
                                                        .num_hiddens = o.num_hiddens,
                                                        .num_heads = o.num_heads,
                                                        .max_len = o.num_tokens,
                                                        .positions = o.positions,
                                                    }));
}

at::Tensor TokenPositions::add(const at::Tensor& x) const {
  if (x.size(1) != num_tokens_) {
    fail("positions: expected images of {}, got {}", counted(num_tokens_, "token"), counted(x.size(1), "token"));
  }
  return learned_.defined() ? x + learned_ : encoding_.ptr()->forward(x, SequenceLayout::full(x));
}

AttentionMask TokenPositions::for_attention(const AttentionMask& mask) const {
  return encoding_.is_empty() ? mask : encoding_->for_attention(mask);
}

std::vector<std::string> PositionalEncodingImpl::derived_buffers() const {
  return options_.positions == Positions::kSinusoidal ? std::vector<std::string>{"P"} : std::vector<std::string>{};
}

}  // namespace fovea::nn
