#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

namespace fovea::exports {

/// A TorchScript module made from a network: its parameters and buffers under the same names (tied ones stay tied,
/// derived ones are there too), methods that are traced or written in TorchScript.
/// Only the files of export/ that make TorchScript include this header.
class ScriptModule {
 public:
  /// Mirrors the tree of `network`, which must outlive this object. Modules without any tensor below are left out.
  explicit ScriptModule(const torch::nn::Module& network);

  /// Adds a method that does what `function` does with any input like `example` (tensors, lists of tensors).
  /// The function gets the example and must be in evaluation mode, without gradients, and made of ATen's own ops.
  using Function = std::function<torch::jit::IValue(const torch::jit::Stack&)>;
  void trace(const std::string& method, const std::vector<std::string>& arguments, torch::jit::Stack example,
             const Function& function);

  /// Adds methods in TorchScript, and what they may use of `self`. An attribute comes after the traces.
  void define(const std::string& source) { module_.define(source); }
  void add(const std::string& name, int64_t value);
  void add(const std::string& name, bool value);
  void add(const std::string& name, const std::string& value);
  void add(const std::string& name, const std::vector<std::string>& value);
  void add_buffer(const std::string& name, at::Tensor value) { module_.register_buffer(name, std::move(value)); }

  /// The module, with weights that share memory with the network's but ask for no gradients.
  torch::jit::Module finish();

 private:
  torch::jit::Module module_;
};

}  // namespace fovea::exports
