#include "fovea/train/optimizer.h"

#include <torch/torch.h>

#include <algorithm>

#include "fovea/config/checker.h"
#include "fovea/core/error.h"

namespace fovea::train {
namespace {

void shared_fields(config::Fields& f, OptimizerConfig& o) {
  f("learning_rate", o.learning_rate, "the peak; a schedule scales it", config::above(0));
}

}  // namespace

void AdamConfig::fields(config::Fields& f) {
  shared_fields(f, *this);
  f("betas", betas, "how long the averages of the gradient and of its square remember", config::half_open(0, 1),
    config::length(2));
  f("eps", eps, "added to the root of the mean square", config::above(0));
  f("weight_decay", weight_decay,
    decoupled ? "share of each weight taken off per step, times the learning rate"
              : "L2 penalty, added to the gradient",
    config::at_least(0));
}

void SgdConfig::fields(config::Fields& f) {
  shared_fields(f, *this);
  f("momentum", momentum, "how much of the last step goes into the next", config::half_open(0, 1));
  f("nesterov", nesterov, "look ahead by the momentum");
  f("weight_decay", weight_decay, "L2 penalty, added to the gradient", config::at_least(0));
}

void SgdConfig::check(const config::Checker& c) const {
  if (nesterov && momentum == 0) c.fail("nesterov", "needs a momentum above 0");
}

std::vector<config::NamedEntry> all_optimizers() {
  return {
      {"adam", "Adam (Kingma & Ba 2015)", [] { return std::make_shared<AdamConfig>(false); }},
      {"adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
       [] { return std::make_shared<AdamConfig>(true); }},
      {"sgd", "stochastic gradient descent, with momentum if asked for", [] { return std::make_shared<SgdConfig>(); }}};
}

Optimizer::Optimizer(Module& module, double weight_decay) {
  std::map<std::string, at::Tensor> by_name;
  for (auto& [name, tensor] : named_parameters(module.network())) by_name.emplace(name, tensor);
  for (const auto& wanted : module.parameter_groups()) {
    Group group;
    group.names = wanted.names;
    group.weight_decay = wanted.weight_decay ? weight_decay : 0.0;
    for (const auto& name : wanted.names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) fail("optimizer: no parameter '{}', or it is in two groups", name);
      group.parameters.push_back(found->second);
      by_name.erase(found);
    }
    groups_.push_back(std::move(group));
  }
  if (!by_name.empty()) fail("optimizer: parameter '{}' is in no group", by_name.begin()->first);
}

std::map<std::string, at::Tensor> Optimizer::state() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& group : groups_) {
    for (const auto& [slot, tensors] : group.slots) {
      for (size_t i = 0; i < tensors.size(); ++i) all.emplace(group.names[i] + "." + slot, tensors[i]);
    }
  }
  return all;
}

void Optimizer::load_state(const std::map<std::string, at::Tensor>& saved) {
  const at::NoGradGuard no_grad;
  auto own = state();
  for (auto& [name, tensor] : own) {
    const auto found = saved.find(name);
    if (found == saved.end()) fail("optimizer state: '{}' is missing", name);
    if (found->second.sizes() != tensor.sizes()) {
      fail("optimizer state: '{}' has shape {}, expected {}", name, c10::str(found->second.sizes()),
           c10::str(tensor.sizes()));
    }
  }
  for (const auto& [name, tensor] : saved) {
    if (!own.contains(name)) fail("optimizer state: '{}' is not known to this optimizer", name);
  }
  for (auto& [name, tensor] : own) tensor.copy_(saved.at(name));
}

namespace {

std::vector<at::Tensor> zeros_for(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> zeros;
  for (const auto& p : parameters) zeros.push_back(at::zeros_like(p, at::MemoryFormat::Contiguous));
  return zeros;
}

// The parameters that have a gradient, and their slots.
struct Active {
  std::vector<at::Tensor> parameters, gradients;
  std::map<std::string, std::vector<at::Tensor>> slots;

  Active(const std::vector<at::Tensor>& all, const std::map<std::string, std::vector<at::Tensor>>& all_slots) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].grad().defined()) continue;
      parameters.push_back(all[i]);
      gradients.push_back(all[i].grad());
      for (const auto& [name, tensors] : all_slots) slots[name].push_back(tensors[i]);
    }
  }
};

class Adam : public Optimizer {
 public:
  Adam(const AdamConfig& config, Module& module) : Optimizer(module, config.weight_decay), config_(config) {
    for (auto& group : groups_) {
      group.slots["exp_avg"] = zeros_for(group.parameters);
      group.slots["exp_avg_sq"] = zeros_for(group.parameters);
      for (const auto& p : group.parameters) {
        group.slots["step"].push_back(at::zeros({}, p.options().dtype(at::kFloat)));
      }
    }
  }

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (auto& group : groups_) {
      Active a(group.parameters, group.slots);
      if (a.parameters.empty()) continue;
      at::_foreach_add_(a.slots["step"], 1);  // the fused kernels do not advance it
      const auto fused = config_.decoupled ? adamw : adam;
      fused(a, learning_rate, config_, group.weight_decay);
    }
  }

 private:
  static void adam(Active& a, double learning_rate, const AdamConfig& c, double weight_decay) {
    at::_fused_adam_(a.parameters, a.gradients, a.slots["exp_avg"], a.slots["exp_avg_sq"], {}, a.slots["step"],
                     learning_rate, c.betas[0], c.betas[1], weight_decay, c.eps, /*amsgrad=*/false,
                     /*maximize=*/false);
  }
  static void adamw(Active& a, double learning_rate, const AdamConfig& c, double weight_decay) {
    at::_fused_adamw_(a.parameters, a.gradients, a.slots["exp_avg"], a.slots["exp_avg_sq"], {}, a.slots["step"],
                      learning_rate, c.betas[0], c.betas[1], weight_decay, c.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }

  AdamConfig config_;
};

class Sgd : public Optimizer {
 public:
  Sgd(const SgdConfig& config, Module& module) : Optimizer(module, config.weight_decay), config_(config) {
    if (config_.momentum == 0) return;
    for (auto& group : groups_) group.slots["momentum_buffer"] = zeros_for(group.parameters);
  }

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (auto& group : groups_) {
      Active a(group.parameters, group.slots);
      if (a.parameters.empty()) continue;
      // Momentum starts from zeros, which is what the first step's special case amounts to without dampening.
      at::_fused_sgd_(a.parameters, a.gradients, a.slots["momentum_buffer"], group.weight_decay, config_.momentum,
                      learning_rate, /*dampening=*/0.0, config_.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false);
    }
  }

 private:
  SgdConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Module& module) {
  if (const auto* adam = dynamic_cast<const AdamConfig*>(&config)) return std::make_unique<Adam>(*adam, module);
  if (const auto* sgd = dynamic_cast<const SgdConfig*>(&config)) return std::make_unique<Sgd>(*sgd, module);
  fail("optimizer: no optimizer belongs to this configuration");
}

at::Tensor clip_gradients(const NamedTensors& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.grad().defined()) gradients.push_back(tensor.grad());
  }
  if (gradients.empty()) return at::zeros({});
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  // Multiplying by 1 where nothing is to be clipped costs less than waiting to learn that.
  if (max_norm > 0) at::_foreach_mul_(gradients, (max_norm / norm).clamp_max(1.0));
  return norm;
}

}  // namespace fovea::train
