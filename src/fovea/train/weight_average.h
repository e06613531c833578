#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "fovea/train/module.h"

namespace fovea::train {

/// An exponential moving average of a network's parameters and saved buffers: the weights to validate and to use, since
/// they forget the noise of the last steps (Polyak & Juditsky 1992).
class WeightAverage {
 public:
  /// Starts from the parameters as they are, on their devices. The network must outlive it.
  WeightAverage(torch::nn::Module& network, double decay);

  /// average = d * average + (1 - d) * parameters with d = min(decay, (1 + step) / (10 + step)), so that what the
  /// network was at first is soon forgotten. `step`: updates done before this one.
  void update(int64_t step);

  /// While it lives the network has the averages for parameters; nothing is copied. Writing the parameters then writes
  /// the averages. Scopes do not nest.
  class Scope {
   public:
    explicit Scope(WeightAverage& average) : average_(average) { average_.swap(); }
    ~Scope() { average_.swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightAverage& average_;
  };

 private:
  void swap();

  double decay_;
  std::vector<at::Tensor> tensors_, averages_;  // of parameters and of buffers that are saved
};

}  // namespace fovea::train
