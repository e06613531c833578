#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/nn/attention.h"

namespace fovea::classification {

/// The contract between models that classify images and everything that uses them: evaluation, classify, export.
/// Implementations are in evaluation mode and without gradients then, and touch nothing but their arguments, so that
/// threads may share one.
class Classifier {
 public:
  virtual ~Classifier() = default;

  /// image: float32 (batch, channels, height, width), normalised as in training. Returns (batch, num_classes).
  virtual at::Tensor logits(const at::Tensor& image, nn::AttentionRecorder* recorder = nullptr) = 0;
};

}  // namespace fovea::classification
