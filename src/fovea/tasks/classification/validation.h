#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/train/module.h"

namespace fovea::classification {

/// What is measured of a classifier, in validation and in evaluation alike: the terms "loss", the cross-entropy, and
/// "accuracy". logits (batch, num_classes), label int64 (batch).
train::LossTerms validation_terms(const at::Tensor& logits, const at::Tensor& label);

}  // namespace fovea::classification
