#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/nn/attention.h"

namespace fovea::classification {

/// What the tokens of a vision Transformer are: some of its own, then patches of the image, row by row.
struct TokenGrid {
  std::vector<std::string> own;  // "class", "distillation"
  int64_t rows = 0, columns = 0;
};

/// The contract between models that classify and everything that uses them: evaluation, prediction, export, teaching.
/// What a batch holds besides "label" is a matter of the data: images, sentences, sounds. Implementations are in
/// evaluation mode and without gradients then, and touch nothing but their arguments, so that threads may share one.
class Classifier {
 public:
  virtual ~Classifier() = default;

  /// Returns (batch, num_classes). The batch needs no "label".
  virtual at::Tensor logits(const data::Batch& batch, nn::AttentionRecorder* recorder = nullptr) const = 0;

  /// What queries and keys of recorded weights are, where all blocks attend over the same patches of an image.
  virtual std::optional<TokenGrid> token_grid() const { return std::nullopt; }
};

}  // namespace fovea::classification
