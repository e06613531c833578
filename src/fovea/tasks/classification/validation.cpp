#include "fovea/tasks/classification/validation.h"

#include <ATen/ATen.h>

namespace fovea::classification {

train::LossTerms validation_terms(const at::Tensor& logits, const at::Tensor& label) {
  const int64_t count = label.size(0);
  return {{"loss", at::cross_entropy_loss(logits, label, {}, at::Reduction::Sum), count},
          {"accuracy", logits.argmax(1).eq(label).sum(), count}};
}

}  // namespace fovea::classification
