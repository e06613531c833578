#pragma once

#include <torch/nn/module.h>

#include <string>

namespace fovea::nn {

/// A module that is to know its place in the network: "encoder.blks.block0.attention". Dropout draws by it
/// (nn/random.h), attention names its recorded weights by it.
struct Placed {
  virtual ~Placed() = default;
  virtual void set_path(const std::string& path) = 0;
};

/// Tells each Placed module under `root` its path there. Called once, by whoever owns the whole network.
void assign_paths(torch::nn::Module& root);

}  // namespace fovea::nn
