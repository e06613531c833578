#include "fovea/train/weight_average.h"

#include <torch/torch.h>

#include <algorithm>

namespace fovea::train {

WeightAverage::WeightAverage(torch::nn::Module& network, double decay) : decay_(decay) {
  for (const auto& [name, parameter] : named_parameters(network)) {
    parameters_.push_back(parameter);
    averages_.push_back(parameter.detach().clone());
  }
}

void WeightAverage::update(int64_t step) {
  const at::NoGradGuard no_grad;
  const auto done = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + done) / (10 + done));
  std::vector<at::Tensor> now;
  now.reserve(parameters_.size());
  for (const auto& parameter : parameters_) now.push_back(parameter.detach());
  at::_foreach_lerp_(averages_, now, 1 - decay);
}

void WeightAverage::swap() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor parameter = parameters_[i].detach();  // another tensor on the same memory
    parameters_[i].set_data(averages_[i]);
    averages_[i] = parameter;
  }
}

}  // namespace fovea::train
