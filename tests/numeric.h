// What numeric tests share: golden tensors, differences, finite differences.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace fovea_tests {

/// The largest absolute difference; infinity where shapes differ or a number is not finite.
double max_difference(const at::Tensor& a, const at::Tensor& b);

/// One case of a golden file: see tests/golden/README.md.
class GoldenCase {
 public:
  GoldenCase(std::map<std::string, at::Tensor> tensors, std::map<std::string, std::string> settings)
      : tensors_(std::move(tensors)), settings_(std::move(settings)) {}

  const at::Tensor& get(const std::string& key) const;
  at::Tensor input(const std::string& name) const { return get("input." + name).clone(); }
  at::Tensor optional_input(const std::string& name) const;  // undefined where there is none
  const at::Tensor& output(const std::string& name) const { return get("output." + name); }
  int64_t integer(const std::string& name) const;
  bool boolean(const std::string& name) const;

  /// Copies `<group>.*` into the module's parameters; every name must be met on both sides.
  void load_parameters(torch::nn::Module& module, const std::string& group = "param") const;
  /// The largest difference of a gradient to `grad.*`, relative to the largest element where that is above 1.
  double gradient_difference(torch::nn::Module& module) const;

 private:
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, std::string> settings_;
};

class Golden {
 public:
  explicit Golden(const std::string& file);
  const std::vector<std::string>& cases() const { return cases_; }
  GoldenCase at(const std::string& name) const;

 private:
  std::vector<std::string> cases_;
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Compares the gradient of sum(f(inputs) * random weights) with central differences, all in double. Returns the
/// largest difference over all inputs.
double finite_difference_error(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                               std::vector<at::Tensor> inputs);

}  // namespace fovea_tests
