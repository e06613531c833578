#include "tests/numeric.h"

#include <limits>
#include <sstream>
#include <stdexcept>

#include "fovea/train/safetensors.h"
#include "tests/source_dir.h"

namespace fovea_tests {

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const at::Tensor difference = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
  return at::isfinite(difference).all().item<bool>() ? difference.max().item<double>()
                                                     : std::numeric_limits<double>::infinity();
}

const at::Tensor& GoldenCase::get(const std::string& key) const {
  const auto found = tensors_.find(key);
  if (found == tensors_.end()) throw std::runtime_error("golden case: no " + key);
  return found->second;
}

at::Tensor GoldenCase::optional_input(const std::string& name) const {
  const auto found = tensors_.find("input." + name);
  return found == tensors_.end() ? at::Tensor() : found->second;
}

int64_t GoldenCase::integer(const std::string& name) const {
  return std::stoll(settings_.at(name));
}

bool GoldenCase::boolean(const std::string& name) const {
  return settings_.at(name) == "true";
}

void GoldenCase::load_parameters(torch::nn::Module& module, const std::string& group) const {
  const at::NoGradGuard no_grad;
  size_t found = 0;
  for (auto& item : module.named_parameters()) {
    item.value().copy_(get(group + "." + item.key()));
    ++found;
  }
  size_t stored = 0;
  for (const auto& [key, tensor] : tensors_) stored += key.starts_with(group + ".") ? 1 : 0;
  if (found != stored) throw std::runtime_error("golden case: parameters that the module does not have");
}

double GoldenCase::gradient_difference(torch::nn::Module& module) const {
  double worst = 0;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& expected = get("grad." + item.key());
    const double scale = std::max(1.0, expected.abs().max().item<double>());
    worst = std::max(worst, max_difference(item.value().grad(), expected) / scale);
  }
  return worst;
}

Golden::Golden(const std::string& file) {
  auto content = fovea::train::load_safetensors(source_dir() / "tests/golden" / (file + ".safetensors"));
  tensors_ = std::move(content.tensors);
  metadata_ = std::move(content.metadata);
  std::istringstream names(metadata_.at("cases"));
  for (std::string name; std::getline(names, name, ',');) {
    cases_.push_back(name.substr(name.find_first_not_of(' ')));
  }
}

GoldenCase Golden::at(const std::string& name) const {
  const auto of_case = [&](const auto& all) {
    std::decay_t<decltype(all)> own;
    for (const auto& [key, value] : all) {
      if (key.starts_with(name + "/")) own.emplace(key.substr(name.size() + 1), value);
    }
    return own;
  };
  return {of_case(tensors_), of_case(metadata_)};
}

double finite_difference_error(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                               std::vector<at::Tensor> inputs) {
  constexpr double kStep = 1e-5;
  for (auto& input : inputs) input = input.detach().to(at::kDouble).clone().requires_grad_();
  const at::Tensor y = f(inputs);
  const at::Tensor weights = at::randn(y.sizes(), at::kDouble);
  const auto loss = [&] { return (f(inputs) * weights).sum(); };
  const auto gradients = torch::autograd::grad({loss()}, inputs);
  const at::NoGradGuard no_grad;
  double worst = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    double* values = inputs[i].mutable_data_ptr<double>();
    const at::Tensor gradient = gradients[i].contiguous();
    for (int64_t j = 0; j < inputs[i].numel(); ++j) {
      const double value = values[j];
      values[j] = value + kStep;
      const double above = loss().item<double>();
      values[j] = value - kStep;
      const double below = loss().item<double>();
      values[j] = value;
      worst = std::max(worst, std::abs((above - below) / (2 * kStep) - gradient.const_data_ptr<double>()[j]));
    }
  }
  return worst;
}

}  // namespace fovea_tests
