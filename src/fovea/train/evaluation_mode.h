#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace fovea::train {

/// Evaluation mode while it lives; then each module is as it was, whatever was thrown. The network must outlive it.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& network);
  ~EvaluationMode();
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& network_;
  bool was_training_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<bool> were_training_;
};

}  // namespace fovea::train
