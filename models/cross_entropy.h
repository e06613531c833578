#pragma once

#include "fovea/train/module.h"

namespace fovea::models {

/// The cross-entropy of logits (count, classes) against labels, int64 (count), as terms. "loss" is the plain one, on
/// the scale of validation. With label smoothing (Szegedy et al. 2016) "smoothed_loss" comes first: it is what trains,
/// and "loss" is only logged.
train::LossTerms cross_entropy_terms(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing);

}  // namespace fovea::models
