#include "fovea/nn/masked_softmax.h"

#include <ATen/ATen.h>

#include <limits>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

// The lowest finite value rather than -inf: a row of nothing but -inf would be NaN in softmax and in its gradient.
double lowest(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::lowest();
    case at::kHalf:
      return std::numeric_limits<at::Half>::lowest();
    case at::kBFloat16:
      return std::numeric_limits<at::BFloat16>::lowest();
    default:
      return std::numeric_limits<float>::lowest();
  }
}

}  // namespace

at::Tensor masked_softmax(const at::Tensor& scores, const AttentionMask& mask) {
  const at::Tensor &bias = mask.bias(), &allowed = mask.allowed();
  const at::Tensor biased = bias.defined() ? scores + bias.to(scores.scalar_type()) : scores;
  if (!allowed.defined()) return at::softmax(biased, -1);
  const at::Tensor forbidden = allowed.logical_not();
  const at::Tensor weights = at::softmax(biased.masked_fill(forbidden, lowest(scores.scalar_type())), -1);
  // Exactly 0, also in the rows where everything is forbidden and softmax found all alike.
  return weights.masked_fill(forbidden, 0);
}

at::Tensor masked_softmax(const at::Tensor& scores, const at::Tensor& valid_lens) {
  if (scores.dim() != 3) fail("masked_softmax: expected (batch, queries, keys), got {}", c10::str(scores.sizes()));
  const auto mask = AttentionMask::from_valid_lens(valid_lens, scores.size(0), scores.size(1), scores.size(2));
  return masked_softmax(scores.unsqueeze(1), mask).squeeze(1);
}

}  // namespace fovea::nn
