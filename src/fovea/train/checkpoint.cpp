#include "fovea/train/checkpoint.h"

#include <ATen/ATen.h>

#include <map>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace {

constexpr const char* kFormat = "fovea-checkpoint-1";

std::string text_of(at::IntArrayRef sizes) {
  return c10::str(sizes);
}

}  // namespace

SafeTensors model_tensors(Module& module) {
  SafeTensors model;
  for (const auto& [name, tensor] : persistent_tensors(module.network())) model.tensors.emplace(name, tensor.detach());
  model.metadata = {{"format", kFormat}};
  std::string aliases;
  for (const auto& [alias, name] : tied_names(module.network())) aliases += alias + "=" + name + "\n";
  if (!aliases.empty()) model.metadata["aliases"] = aliases;
  return model;
}

void save_checkpoint(const std::filesystem::path& dir, Module& module, const Optimizers& optimizers,
                     const TrainState& state, const std::string& config_yaml, const data::DataAssets& assets,
                     WeightAverage* average) {
  if (average != nullptr) {
    save_safetensors(dir / kRawFile, model_tensors(module));
    const WeightAverage::Scope averaged(*average);
    save_safetensors(dir / kModelFile, model_tensors(module));
  } else {
    save_safetensors(dir / kModelFile, model_tensors(module));
  }
  save_safetensors(dir / kOptimizerFile, {optimizers.state(), {{"format", kFormat}}});
  save_state(state, dir / kStateFile);
  write_file(dir / kConfigFile, config_yaml);
  assets.save(dir);
}

const char* weights_to_use(const std::filesystem::path& dir) {
  return std::filesystem::exists(dir / kAverageFileOf01) ? kAverageFileOf01 : kModelFile;
}

void load_weights(const std::filesystem::path& dir, torch::nn::Module& network) {
  load_weights(dir, network, weights_to_use(dir));
}

void load_to_go_on(const std::filesystem::path& dir, torch::nn::Module& network, WeightAverage* average) {
  if (average == nullptr) return load_weights(dir, network, kModelFile);
  const bool is_of_01 = std::filesystem::exists(dir / kAverageFileOf01);
  load_weights(dir, network, is_of_01 ? kModelFile : kRawFile);
  const WeightAverage::Scope averaged(*average);
  load_weights(dir, network);
}

void load_weights(const std::filesystem::path& dir, torch::nn::Module& network, const char* file) {
  const auto path = dir / file;
  const SafeTensors saved = load_safetensors(path);
  const NamedTensors own = persistent_tensors(network);
  std::map<std::string, at::Tensor> left(saved.tensors.begin(), saved.tensors.end());
  std::string problems;
  for (const auto& [name, tensor] : own) {
    const auto found = left.find(name);
    if (found == left.end()) {
      problems += fmt::format("\n  {}: missing, expected {}", name, text_of(tensor.sizes()));
    } else {
      if (found->second.sizes() != tensor.sizes()) {
        problems +=
            fmt::format("\n  {}: saved {}, expected {}", name, text_of(found->second.sizes()), text_of(tensor.sizes()));
      } else if (found->second.scalar_type() != tensor.scalar_type()) {
        problems += fmt::format("\n  {}: saved as {}, expected {}", name, c10::toString(found->second.scalar_type()),
                                c10::toString(tensor.scalar_type()));
      }
      left.erase(found);
    }
  }
  for (const auto& [name, tensor] : left) {
    problems += fmt::format("\n  {}: saved {}, not part of this model", name, text_of(tensor.sizes()));
  }
  if (!problems.empty()) fail_usage("{}: the weights are not those of this model:{}", path.string(), problems);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) at::Tensor(tensor).copy_(saved.tensors.at(name));
}

void load_optimizer(const std::filesystem::path& dir, Optimizers& optimizers) {
  const auto path = dir / kOptimizerFile;
  try {
    optimizers.load_state(load_safetensors(path).tensors);
  } catch (const Error& e) {
    fail_usage("{}: {}", path.string(), e.what());
  }
}

}  // namespace fovea::train
