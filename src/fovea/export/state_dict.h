#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fovea::exports {

/// Tensors by name, as a file of weights has them, on the CPU.
struct ForeignWeights {
  std::map<std::string, at::Tensor> tensors;
  std::vector<std::string> notices;  // what a user should know of how they were read
};

/// Reads what torch.save(model.state_dict(), file) writes (the zip format of torch 1.6 and later). Nothing of the file
/// is run (see pickle.h). A dict that holds the state_dict under "state_dict", "model_state_dict" or "model" is taken
/// too, with a notice. Checksums are checked. Throws Error naming the file and what is wrong with it: damaged or cut
/// short, a TorchScript file, torch's format of before 1.6, no tensors.
ForeignWeights load_state_dict(const std::filesystem::path& path);

/// Either a state_dict or safetensors: the content decides. Throws Error naming what the file is instead.
ForeignWeights load_foreign_weights(const std::filesystem::path& path);

}  // namespace fovea::exports
