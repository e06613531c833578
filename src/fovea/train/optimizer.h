#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/train/module.h"

namespace fovea::train {

/// What all optimizers are told.
struct OptimizerConfig : config::Section {
  double learning_rate = 1e-3;
  double weight_decay = 0.0;
};

/// adam and adamw. They differ in where the weight decay goes: into the gradient (L2, as torch::optim::Adam), or
/// straight into the weights (Loshchilov & Hutter 2019).
struct AdamConfig : OptimizerConfig {
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool decoupled = false;  // which of the two names it was made under
  explicit AdamConfig(bool is_decoupled) : decoupled(is_decoupled) { weight_decay = is_decoupled ? 0.01 : 0.0; }
  void fields(config::Fields& f) override;
};

struct SgdConfig : OptimizerConfig {
  double momentum = 0.0;
  bool nesterov = false;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

std::vector<config::NamedEntry> all_optimizers();

/// Steps all parameters at once with ATen's fused kernels: LibTorch's own optimizers go tensor by tensor, several
/// passes each. The state is plain tensors by parameter name.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One step with the gradients that are there; a parameter without one stays as it is.
  virtual void step(double learning_rate) = 0;
  /// Every tensor of the state by "<parameter>.<what>". Complete after the first step; all are kept from the start.
  std::map<std::string, at::Tensor> state() const;
  /// Copies into the state. Throws Error listing what is missing, extra or of another shape.
  void load_state(const std::map<std::string, at::Tensor>& saved);

 protected:
  struct Group {
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters;
    double weight_decay = 0;
    std::map<std::string, std::vector<at::Tensor>> slots;  // "exp_avg" -> one tensor for each parameter
  };
  explicit Optimizer(Module& module, double weight_decay);
  std::vector<Group> groups_;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Module& module);

/// Scales the gradients down to a norm of `max_norm` over all of them, where it is larger (d2l 9.5). Returns the norm
/// before that, a 0-dim tensor; `max_norm` 0 only measures. Nothing waits for a device.
at::Tensor clip_gradients(const NamedTensors& parameters, double max_norm);

}  // namespace fovea::train
