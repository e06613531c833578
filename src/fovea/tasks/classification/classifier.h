#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/data/batch.h"
#include "fovea/nn/attention.h"

namespace fovea::classification {

/// The contract between models that classify and everything that uses them: evaluation, prediction, export, teaching.
/// What a batch holds besides "label" is a matter of the data: images, sentences, sounds. Implementations are in
/// evaluation mode and without gradients then, and touch nothing but their arguments, so that threads may share one.
class Classifier {
 public:
  virtual ~Classifier() = default;

  /// Returns (batch, num_classes). The batch needs no "label".
  virtual at::Tensor logits(const data::Batch& batch, nn::AttentionRecorder* recorder = nullptr) const = 0;
};

}  // namespace fovea::classification
