#include "models/cross_entropy.h"

#include <torch/torch.h>

namespace fovea::models {

train::LossTerms cross_entropy_terms(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing) {
  const int64_t count = labels.size(0);
  if (label_smoothing == 0) return {{"loss", at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum), count}};
  // As at::cross_entropy_loss composes it, to the bit; the plain loss is a part of it.
  const at::Tensor log_probs = at::log_softmax(logits, 1);
  const at::Tensor plain = at::nll_loss(log_probs, labels, {}, at::Reduction::Sum);
  const at::Tensor spread = -log_probs.sum(1).sum();
  const at::Tensor smoothed =
      (1 - label_smoothing) * plain + spread * (label_smoothing / static_cast<double>(logits.size(1)));
  return {{"smoothed_loss", smoothed, count}, {"loss", plain.detach(), count, /*trains=*/false}};
}

}  // namespace fovea::models
