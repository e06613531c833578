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
  /// Weights between hidden layers, convolutions among them: matrices that decay and have no named rows (words,
  /// classes).
  bool hidden_matrices = false;
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

enum class MuonScale { kMatchRmsAdamW, kOriginal };

constexpr auto enum_names(MuonScale) {
  return std::to_array<EnumName<MuonScale>>(
      {{MuonScale::kMatchRmsAdamW, "match_rms_adamw"}, {MuonScale::kOriginal, "original"}});
}

/// muon (Jordan et al. 2024): the hidden matrices step along their momentum with all its singular values brought near
/// to 1, by a Newton-Schulz iteration. Embeddings, heads, biases and norms step as in adamw. With `match_rms_adamw`
/// (Liu et al. 2025, "Muon is scalable for LLM training") a step is as long as Adam's, so that both have one learning
/// rate.
struct MuonConfig : AdamConfig {
  double momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  MuonScale scale = MuonScale::kMatchRmsAdamW;
  MuonConfig() : AdamConfig(true) {}
  void fields(config::Fields& f) override;
  std::unique_ptr<Optimizer> make(const std::vector<OptimizedGroup>& groups) const override;
};

/// Muon's step direction: of matrices (count, rows, columns) those with the same singular vectors and singular values
/// near to 1 (0.7 to 1.2 after 5 steps), by the quintic iteration of Jordan et al.
at::Tensor orthogonalize(const at::Tensor& matrices, int64_t ns_steps);

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
  virtual std::map<std::string, at::Tensor> state() const;

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
