#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/train/module.h"

namespace fovea::train {

class Optimizer;

/// The parameters of one optimizer, in groups that are stepped alike.
struct OptimizedGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  bool weight_decay = true;
  double learning_rate_factor = 1;
};

/// What all optimizers are told. A section makes its own optimizer.
struct OptimizerConfig : config::Section {
  double learning_rate = 1e-3;
  double weight_decay = 0.0;
  std::vector<std::string> factors;  // "prefix=factor"

  void check(const config::Checker& c) const override;
  virtual std::unique_ptr<Optimizer> make(const std::vector<OptimizedGroup>& groups) const = 0;

 protected:
  void shared_fields(config::Fields& f);
};

/// adam and adamw. They differ in where the weight decay goes: into the gradient (L2, as torch::optim::Adam), or
/// straight into the weights (Loshchilov & Hutter 2019).
struct AdamConfig : OptimizerConfig {
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool decoupled = false;  // which of the two names it was made under
  explicit AdamConfig(bool is_decoupled) : decoupled(is_decoupled) { weight_decay = is_decoupled ? 0.01 : 0.0; }
  void fields(config::Fields& f) override;
  std::unique_ptr<Optimizer> make(const std::vector<OptimizedGroup>& groups) const override;
};

struct SgdConfig : OptimizerConfig {
  double momentum = 0.0;
  bool nesterov = false;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  std::unique_ptr<Optimizer> make(const std::vector<OptimizedGroup>& groups) const override;
};

/// Every optimizer a config can name. A new one adds its line here.
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

 protected:
  struct Group : OptimizedGroup {
    double decay = 0;                                      // of the weights
    std::map<std::string, std::vector<at::Tensor>> slots;  // "exp_avg" -> one tensor for each parameter
  };
  Optimizer(const std::vector<OptimizedGroup>& groups, double weight_decay);
  std::vector<Group> groups_;
};

/// The optimizers of a model, one for each of its turns, as one state.
class Optimizers {
 public:
  /// `freeze`: prefixes of parameters that are left as they are ("encoder", "encoder.blks.block0"); they get no
  /// gradient. Throws what check_prefixes does, and Error for a parameter that is in two groups or in none.
  Optimizers(Module& module, const OptimizerConfig& config, const std::vector<std::string>& freeze = {});

  struct Turn {
    std::string name;
    int64_t times = 1;
    double learning_rate_factor = 1;
    NamedTensors parameters;  // in the network's order
    std::unique_ptr<Optimizer> optimizer;
  };
  const std::vector<Turn>& turns() const { return turns_; }

  /// Every tensor of all states by "<parameter>.<what>".
  std::map<std::string, at::Tensor> state() const;
  /// Copies into the states. Throws Error listing what is missing, extra or of another shape.
  void load_state(const std::map<std::string, at::Tensor>& saved);

 private:
  std::vector<Turn> turns_;
};

/// True if `name` is `prefix`, or lies below it: "encoder.embedding.weight" below "encoder".
bool is_below(const std::string& name, const std::string& prefix);
bool is_below_any(const std::string& name, const std::vector<std::string>& prefixes);

/// Throws a usage Error for a prefix of train.freeze or optimizer.factors that names no parameter, and where every
/// parameter is frozen.
void check_prefixes(Module& module, const OptimizerConfig& config, const std::vector<std::string>& freeze);

/// Scales the gradients down to a norm of `max_norm` over all of them, where it is larger (d2l 9.5). Returns the norm
/// before that, a 0-dim tensor; `max_norm` 0 only measures. Nothing waits for a device.
at::Tensor clip_gradients(const NamedTensors& parameters, double max_norm);

}  // namespace fovea::train
