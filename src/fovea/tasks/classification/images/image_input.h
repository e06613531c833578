#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "fovea/data/data_spec.h"

namespace fovea::classification {

/// How an image becomes what a model sees: resized to the spec's height and width, scaled to [0, 1], then
/// (x - mean) / std by channel. And what the model's classes are called.
struct ImageInput {
  ImageSpec spec;
  std::vector<double> mean, std;         // of each channel
  std::vector<std::string> class_names;  // num_classes of them
  // All of it for one image of any size, uint8 (channels, h, w) -> float32 (channels, height, width).
  std::function<at::Tensor(const at::Tensor&)> preprocess;
};

}  // namespace fovea::classification
