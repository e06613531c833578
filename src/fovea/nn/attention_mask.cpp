#include "fovea/nn/attention_mask.h"

#include <ATen/ATen.h>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

std::vector<int64_t> host_lengths(const at::Tensor& lens) {
  const at::Tensor host = lens.cpu().contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

}  // namespace

AttentionMask AttentionMask::self(const SequenceLayout& layout, bool causal) {
  return {layout, layout, causal};
}

AttentionMask AttentionMask::cross(const SequenceLayout& queries, const SequenceLayout& keys) {
  return {queries, keys};
}

AttentionMask AttentionMask::from_valid_lens(const at::Tensor& valid_lens, int64_t batch, int64_t num_queries,
                                             int64_t num_keys) {
  const at::Device device = valid_lens.defined() ? valid_lens.device() : at::Device(at::kCPU);
  const auto queries = SequenceLayout::full(batch, num_queries, device);
  const auto keys = SequenceLayout::full(batch, num_keys, device);
  if (!valid_lens.defined()) return {queries, keys};
  if (valid_lens.numel() > 0 && valid_lens.min().item<int64_t>() < 0) {
    fail("valid_lens: a length must not be negative, got {}", valid_lens.min().item<int64_t>());
  }
  const at::Tensor lens = valid_lens.to(at::kLong).clamp_max(num_keys);
  if (lens.dim() == 1 && lens.size(0) == batch) {
    return {queries, SequenceLayout::padded(host_lengths(lens), num_keys, device)};
  }
  if (lens.dim() == 2 && lens.size(0) == batch && lens.size(1) == num_queries) {
    // A key that no query of its row may see is padding: what it holds must not matter.
    const at::Tensor seen = num_queries > 0 ? std::get<0>(lens.max(1)) : at::zeros({batch}, lens.options());
    return {queries, SequenceLayout::padded(host_lengths(seen), num_keys, device), false, lens};
  }
  fail("valid_lens: expected ({}) or ({}, {}), got {}", batch, batch, num_queries, c10::str(valid_lens.sizes()));
}

const at::Tensor& AttentionMask::allowed() const {
  if (built_) return allowed_;
  built_ = true;
  const auto restrict_to = [this](const at::Tensor& condition) {
    allowed_ = allowed_.defined() ? allowed_.logical_and(condition) : condition;
  };
  if (!keys.all_valid()) restrict_to(keys.valid().unsqueeze(1).unsqueeze(1));  // (batch, 1, 1, keys)
  if (valid_lens.defined()) {
    restrict_to((keys.row_positions() < valid_lens.unsqueeze(-1)).unsqueeze(1));  // (batch, 1, queries, keys)
  }
  if (causal && queries.steps() > 0) {
    const at::Tensor last = add(queries.row_positions(), keys.traced_steps() - queries.traced_steps());
    const at::Tensor seen = keys.row_positions() <= last.unsqueeze(-1);  // (queries, keys)
    // A single query that sees everything needs no mask: the step of cached decoding.
    if (queries.steps() > 1) restrict_to(seen.unsqueeze(0).unsqueeze(0));
  }
  return allowed_;
}

}  // namespace fovea::nn
