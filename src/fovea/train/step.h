#pragma once

#include <string>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/train/module.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/world.h"

namespace fovea::train {

struct StepOptions {
  uint64_t seed = 0;
  int64_t accumulate = 1;  // micro-batches of each rank in a step
  double clip_norm = 0;    // 0: no limit
};

/// What a step gives to log. Tensors stay on their device: bringing them to the host would wait for it.
struct StepResult {
  struct Term {
    std::string name;
    at::Tensor sum;  // float64, 0-dim, over all ranks
    int64_t count = 0;
  };
  std::vector<Term> terms;
  at::Tensor gradient_norm;  // before clipping; undefined where nothing has a gradient
};

/// One optimizer step: forward, backward, clip, step, for each of the model's turns. Trainer, benchmarks and tests all
/// step through this class.
class TrainingStep {
 public:
  /// The module and the world must outlive it.
  TrainingStep(Module& module, const OptimizerConfig& config, const StepOptions& options,
               const std::vector<std::string>& freeze = {}, World& world = alone());

  /// `group`: this rank's micro-batches, on the module's device; the i-th is number i * world.size() + rank of the
  /// step. `step`: optimizer steps done before this one. The loss of a micro-batch is divided by the counts of the
  /// whole group over all ranks: how examples are cut into micro-batches does not change the gradient.
  StepResult operator()(const std::vector<data::Batch>& group, int64_t step, double learning_rate);

  Optimizers& optimizers() { return optimizers_; }
  const Optimizers& optimizers() const { return optimizers_; }
  /// The micro-batches of a whole step, over all ranks.
  int64_t micro_batches() const { return options_.accumulate * world_.size(); }
  World& world() const { return world_; }

 private:
  static World& alone();
  void sum_over_ranks(StepResult& result) const;
  std::vector<int64_t> total_counts(const std::vector<data::Batch>& group, int64_t turn) const;
  void accumulate(const std::vector<data::Batch>& group, int64_t turn, uint64_t first_draw, StepResult& result);
  at::Tensor update(const Optimizers::Turn& turn, double learning_rate);

  Module& module_;
  StepOptions options_;
  World& world_;
  Optimizers optimizers_;
  int64_t substeps_ = 0;  // turns of a step, repeated ones counted
};

}  // namespace fovea::train
