#include "fovea/train/module.h"

#include <torch/torch.h>

#include <map>
#include <set>

#include "fovea/nn/positional_encoding.h"

namespace fovea::train {

std::vector<ParameterGroup> Module::parameter_groups() {
  ParameterGroup all;
  for (const auto& [name, tensor] : named_parameters(network())) all.names.push_back(name);
  return {all};
}

std::vector<Turn> Module::turns() {
  return {Turn{.name = {}, .groups = parameter_groups()}};
}

NamedTensors named_parameters(torch::nn::Module& network) {
  NamedTensors named;
  std::set<const void*> seen;
  // LibTorch lists a tied parameter once for each of its names; an optimizer would step it twice.
  for (const auto& item : network.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) named.emplace_back(item.key(), item.value());
  }
  return named;
}

std::vector<std::pair<std::string, std::string>> tied_names(torch::nn::Module& network) {
  std::vector<std::pair<std::string, std::string>> tied;
  std::map<const void*, std::string> first;
  for (const auto& item : network.named_parameters()) {
    const auto [found, is_new] = first.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (!is_new) tied.emplace_back(item.key(), found->second);
  }
  return tied;
}

NamedTensors persistent_tensors(torch::nn::Module& network) {
  NamedTensors named = named_parameters(network);
  std::set<std::string> derived;
  const auto collect = [&derived](const torch::nn::Module& module, const std::string& prefix) {
    if (const auto* owner = dynamic_cast<const nn::DerivedBuffers*>(&module)) {
      for (const auto& buffer : owner->derived_buffers()) derived.insert(prefix + buffer);
    }
  };
  collect(network, "");
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    collect(*item.value(), item.key() + ".");
  }
  for (const auto& item : network.named_buffers()) {
    if (!derived.contains(item.key())) named.emplace_back(item.key(), item.value());
  }
  return named;
}

int64_t count_parameters(torch::nn::Module& network) {
  int64_t count = 0;
  for (const auto& [name, tensor] : named_parameters(network)) count += tensor.numel();
  return count;
}

}  // namespace fovea::train
