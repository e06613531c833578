#include "fovea/train/evaluation_mode.h"

namespace fovea::train {

EvaluationMode::EvaluationMode(torch::nn::Module& network)
    : network_(network), was_training_(network.is_training()), modules_(network.modules(/*include_self=*/false)) {
  for (const auto& module : modules_) were_training_.push_back(module->is_training());
  network.eval();
}

EvaluationMode::~EvaluationMode() {
  network_.train(was_training_);
  // A module sets those below it too, which come after it.
  for (size_t i = 0; i < modules_.size(); ++i) modules_[i]->train(were_training_[i]);
}

}  // namespace fovea::train
