#pragma once

#include <torch/nn/module.h>

namespace fovea::nn {

/// A module that only holds others. Torch's own containers name their children by number or want one type of call.
struct Children : torch::nn::Module {
  using torch::nn::Module::register_module;
};

}  // namespace fovea::nn
