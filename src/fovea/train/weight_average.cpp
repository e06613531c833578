#include "fovea/train/weight_average.h"

#include <torch/torch.h>

#include <algorithm>

namespace fovea::train {

WeightAverage::WeightAverage(torch::nn::Module& network, double decay) : decay_(decay) {
  for (const auto& [name, tensor] : persistent_tensors(network)) {
    tensors_.push_back(tensor);
    averages_.push_back(tensor.detach().clone());
  }
}

void WeightAverage::update(int64_t step) {
  const at::NoGradGuard no_grad;
  const auto done = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + done) / (10 + done));
  std::vector<at::Tensor> averages, now;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (averages_[i].is_floating_point()) {
      averages.push_back(averages_[i]);
      now.push_back(tensors_[i].detach());
    } else {
      averages_[i].copy_(tensors_[i]);  // a counter has no mean
    }
  }
  at::_foreach_lerp_(averages, now, 1 - decay);
}

void WeightAverage::swap() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor own = tensors_[i].detach();  // another tensor on the same memory
    tensors_[i].set_data(averages_[i]);
    averages_[i] = own;
  }
}

}  // namespace fovea::train
