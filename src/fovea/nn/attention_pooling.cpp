#include "fovea/nn/attention_pooling.h"

#include <torch/torch.h>

#include <limits>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

// Not normalised, and 0 where a key is too far away.
at::Tensor unnormalised(Kernel kernel, const at::Tensor& squared_distances) {
  switch (kernel) {
    case Kernel::kBoxcar:
      return squared_distances.lt(1).to(squared_distances.scalar_type());
    case Kernel::kEpanechikov:
      return at::relu(1 - squared_distances.sqrt());
    default:
      return at::ones_like(squared_distances);
  }
}

}  // namespace

at::Tensor kernel_weights(Kernel kernel, const at::Tensor& squared_distances, const at::Tensor& allowed) {
  if (kernel == Kernel::kGaussian) {
    // As softmax: far from all keys, exp(-u^2 / 2) is 0 for each of them.
    at::Tensor scores = -squared_distances / 2;
    if (allowed.defined()) scores = scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
    return at::softmax(scores, -1);
  }
  const at::Tensor everywhere =
      allowed.defined() ? allowed.to(squared_distances.scalar_type()) : at::ones_like(squared_distances);
  const at::Tensor weights = unnormalised(kernel, squared_distances) * everywhere;
  const at::Tensor near = at::where(weights.sum(-1, true) > 0, weights, everywhere);
  return near / near.sum(-1, true);
}

AttentionPoolingImpl::AttentionPoolingImpl(const AttentionPoolingOptions& options) : options_(options) {
  if (!(options.bandwidth > 0))
    fail_usage("attention pooling: the bandwidth must be above 0, got {}", options.bandwidth);
  if (!options.learn_width) return;
  if (!has_gradient(options.kernel)) {
    fail_usage("attention pooling: the width of a {} kernel has no gradient", name_of(options.kernel));
  }
  w_ = register_parameter("w", at::rand({1}));
}

at::Tensor AttentionPoolingImpl::forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                         const at::Tensor& leave_out, AttentionRecorder* recorder) {
  const at::Tensor difference = queries.unsqueeze(1) - keys.unsqueeze(0);  // (queries, keys, features)
  const at::Tensor scaled = w_.defined() ? difference * w_ : difference / options_.bandwidth;
  at::Tensor allowed;  // (queries, keys)
  if (leave_out.defined()) {
    allowed = at::arange(keys.size(0), leave_out.options()).unsqueeze(0).ne(leave_out.unsqueeze(1));
  }
  const at::Tensor weights = kernel_weights(options_.kernel, scaled.square().sum(-1), allowed);
  if (recorder != nullptr) recorder->add(record_name_, weights.unsqueeze(0).unsqueeze(0));
  return weights.matmul(values);
}

}  // namespace fovea::nn
