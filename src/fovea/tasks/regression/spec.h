#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/data/batch.h"
#include "fovea/data/data_spec.h"
#include "fovea/nn/attention.h"

namespace fovea::regression {

/// What a model must know of a table of numbers to be built.
struct RegressionSpec : data::DataSpec {
  static constexpr const char* kKind = "tables of numbers";

  int64_t num_features = 1;
  int64_t num_targets = 1;
  int64_t num_examples = 0;  // training rows

  /// The training rows, for models that remember them: float32 (num_examples, num_features) and (num_examples,
  /// num_targets), standardised. Undefined where the spec comes out of a checkpoint, which has them in its weights.
  at::Tensor x, y;

  const char* task() const override { return "regression"; }
  const char* kind() const override { return kKind; }
};

/// Rows of a table, standardised.
struct RegressionBatch {
  const at::Tensor& x;  // float32 (batch, num_features)
  const at::Tensor& y;  // float32 (batch, num_targets)
  // A training batch has "row" too, int64 (batch): which training row each is.

  explicit RegressionBatch(const data::Batch& batch) : x(batch.tensor("x")), y(batch.tensor("y")) {}
};

/// The contract of models that predict numbers. Implementations are in evaluation mode and without gradients, and touch
/// nothing but their arguments, so that threads may share one.
class Regressor {
 public:
  virtual ~Regressor() = default;
  /// Returns (batch, num_targets), standardised. The batch needs no "y".
  virtual at::Tensor predict(const data::Batch& batch, nn::AttentionRecorder* recorder = nullptr) const = 0;
  /// The rows that recorded weights are over, (rows, num_features), standardised; undefined where there are none.
  virtual at::Tensor keys() const { return {}; }
};

}  // namespace fovea::regression
