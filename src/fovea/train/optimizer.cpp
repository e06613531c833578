#include "fovea/train/optimizer.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "fovea/config/checker.h"
#include "fovea/core/error.h"
#include "fovea/core/numbers.h"
#include "fovea/core/suggest.h"

namespace fovea::train {
namespace {

// A learning-rate factor for what lies below a prefix.
struct Factor {
  std::string prefix;
  double value = 1;
};

std::optional<Factor> parse_factor(const std::string& text) {
  const size_t equals = text.find('=');
  const auto value = parse_double(equals == std::string::npos ? "" : text.substr(equals + 1));
  if (!value || *value < 0) return std::nullopt;
  return Factor{text.substr(0, equals), *value};
}

// Of texts that were checked.
std::vector<Factor> parse_factors(const std::vector<std::string>& texts) {
  std::vector<Factor> factors;
  for (const auto& text : texts) factors.push_back(parse_factor(text).value());
  return factors;
}

}  // namespace

void OptimizerConfig::shared_fields(config::Fields& f) {
  f("learning_rate", learning_rate, "the peak; a schedule scales it", config::above(0));
  f("factors", factors,
    "learning-rate factors of some parameters, as prefix=factor: [encoder=0.1] trains the encoder at a tenth of the "
    "learning rate");
}

void OptimizerConfig::check(const config::Checker& c) const {
  std::set<std::string> prefixes;
  for (const auto& text : factors) {
    const auto factor = parse_factor(text);
    if (!factor) {
      c.fail("factors", "expected prefix=factor with a factor from 0 on, as in encoder=0.1, found '{}'", text);
    }
    if (!prefixes.insert(factor->prefix).second) {
      c.fail("factors", "'{}' is given twice; expected one factor for it", factor->prefix);
    }
  }
}

void AdamConfig::fields(config::Fields& f) {
  shared_fields(f);
  f("betas", betas, "how long the averages of the gradient and of its square remember", config::half_open(0, 1),
    config::length(2));
  f("eps", eps, "added to the root of the mean square", config::above(0));
  f("weight_decay", weight_decay,
    decoupled ? "share of each weight taken off per step, times the learning rate"
              : "L2 penalty, added to the gradient",
    config::at_least(0));
}

void SgdConfig::fields(config::Fields& f) {
  shared_fields(f);
  f("momentum", momentum, "how much of the last step goes into the next", config::half_open(0, 1));
  f("nesterov", nesterov, "look ahead by the momentum");
  f("weight_decay", weight_decay, "L2 penalty, added to the gradient", config::at_least(0));
}

void SgdConfig::check(const config::Checker& c) const {
  OptimizerConfig::check(c);
  if (nesterov && momentum == 0) c.fail("nesterov", "needs a momentum above 0");
}

void MuonConfig::fields(config::Fields& f) {
  AdamConfig::fields(f);
  f("momentum", momentum, "hidden matrices: how long the average of the gradient remembers", config::half_open(0, 1));
  f("nesterov", nesterov, "hidden matrices: look ahead by the momentum");
  f("ns_steps", ns_steps, "hidden matrices: steps of the Newton-Schulz iteration", config::range(1, 20));
  f("scale", scale,
    "hidden matrices: how long a step is. match_rms_adamw: as Adam's, learning rates of adamw carry over; original: "
    "sqrt(max(1, rows / columns))");
}

std::vector<config::NamedEntry> all_optimizers() {
  return {
      {"adam", "Adam (Kingma & Ba 2015)", [] { return std::make_shared<AdamConfig>(false); }},
      {"adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
       [] { return std::make_shared<AdamConfig>(true); }},
      {"muon", "orthogonal steps for hidden matrices (Jordan et al. 2024), adamw for the rest",
       [] { return std::make_shared<MuonConfig>(); }},
      {"sgd", "stochastic gradient descent, with momentum if asked for", [] { return std::make_shared<SgdConfig>(); }}};
}

Optimizer::Optimizer(const std::vector<OptimizedGroup>& groups, double weight_decay) {
  for (const auto& group : groups) {
    groups_.push_back({group, group.weight_decay ? weight_decay : 0.0, {}});
  }
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
  Adam(const AdamConfig& config, const std::vector<OptimizedGroup>& groups)
      : Optimizer(groups, config.weight_decay), config_(config) {
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
      fused(a, learning_rate * group.learning_rate_factor, config_, group.decay);
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

// A tensor as the matrix that Muon sees: a convolution has a row for each output channel.
at::Tensor as_matrix(const at::Tensor& t) {
  return t.flatten(1);
}

class Muon : public Optimizer {
 public:
  Muon(const MuonConfig& config, const std::vector<OptimizedGroup>& hidden, const std::vector<OptimizedGroup>& rest)
      : Optimizer(hidden, config.weight_decay), config_(config), rest_(config.AdamConfig::make(rest)) {
    for (auto& group : groups_) group.slots["momentum_buffer"] = zeros_for(group.parameters);
  }

  std::map<std::string, at::Tensor> state() const override {
    auto all = Optimizer::state();
    all.merge(rest_->state());
    return all;
  }

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    rest_->step(learning_rate);
    for (auto& group : groups_) {
      Active a(group.parameters, group.slots);
      if (a.parameters.empty()) continue;
      const double rate = learning_rate * group.learning_rate_factor;
      auto& momenta = a.slots["momentum_buffer"];
      at::_foreach_lerp_(momenta, a.gradients, 1 - config_.momentum);
      const auto directions = config_.nesterov ? at::_foreach_lerp(a.gradients, momenta, config_.momentum) : momenta;
      if (group.decay != 0) at::_foreach_mul_(a.parameters, 1 - rate * group.decay);
      // Matrices of one shape go through the iteration together.
      std::map<std::vector<int64_t>, std::vector<size_t>> by_shape;
      for (size_t i = 0; i < directions.size(); ++i) by_shape[as_matrix(directions[i]).sizes().vec()].push_back(i);
      for (const auto& [shape, members] : by_shape) {
        std::vector<at::Tensor> stacked;
        for (const size_t i : members) stacked.push_back(as_matrix(directions[i]));
        const at::Tensor steps = orthogonalize(at::stack(stacked), config_.ns_steps) * (-rate * scale_of(shape));
        for (size_t k = 0; k < members.size(); ++k) {
          at::Tensor& parameter = a.parameters[members[k]];
          parameter.add_(steps[static_cast<int64_t>(k)].view(parameter.sizes()));
        }
      }
    }
  }

 private:
  double scale_of(const std::vector<int64_t>& shape) const {
    const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
    return config_.scale == MuonScale::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                 : 0.2 * std::sqrt(std::max(rows, columns));
  }

  MuonConfig config_;
  std::unique_ptr<Optimizer> rest_;
};

class Sgd : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const std::vector<OptimizedGroup>& groups)
      : Optimizer(groups, config.weight_decay), config_(config) {
    if (config_.momentum == 0) return;
    for (auto& group : groups_) group.slots["momentum_buffer"] = zeros_for(group.parameters);
  }

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (auto& group : groups_) {
      Active a(group.parameters, group.slots);
      if (a.parameters.empty()) continue;
      // Momentum starts from zeros, which is what the first step's special case amounts to without dampening.
      at::_fused_sgd_(a.parameters, a.gradients, a.slots["momentum_buffer"], group.decay, config_.momentum,
                      learning_rate * group.learning_rate_factor, /*dampening=*/0.0, config_.nesterov,
                      /*maximize=*/false,
                      /*is_first_step=*/false);
    }
  }

 private:
  SgdConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> AdamConfig::make(const std::vector<OptimizedGroup>& groups) const {
  return std::make_unique<Adam>(*this, groups);
}

std::unique_ptr<Optimizer> MuonConfig::make(const std::vector<OptimizedGroup>& groups) const {
  std::vector<OptimizedGroup> hidden, rest;
  for (const auto& group : groups) (group.hidden_matrices ? hidden : rest).push_back(group);
  return std::make_unique<Muon>(*this, hidden, rest);
}

at::Tensor orthogonalize(const at::Tensor& matrices, int64_t ns_steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool is_tall = matrices.size(1) > matrices.size(2);  // the products are over the shorter side
  at::Tensor x = is_tall ? matrices.transpose(1, 2) : matrices;
  x = x / at::linalg_vector_norm(x, 2, {1, 2}, /*keepdim=*/true).clamp_min(1e-7);
  for (int64_t i = 0; i < ns_steps; ++i) {
    const at::Tensor gram = at::bmm(x, x.transpose(1, 2));
    x = at::baddbmm(x, at::baddbmm(gram, gram, gram, kB, kC), x, kA);
  }
  return is_tall ? x.transpose(1, 2).contiguous() : x;
}

std::unique_ptr<Optimizer> SgdConfig::make(const std::vector<OptimizedGroup>& groups) const {
  return std::make_unique<Sgd>(*this, groups);
}

bool is_below(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

bool is_below_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) { return is_below(name, prefix); });
}

namespace {

// Throws a usage Error that suggests the children of the network's root.
void check_prefix(const char* key, const std::string& prefix, const NamedTensors& parameters) {
  std::vector<std::string> candidates;
  for (const auto& [name, tensor] : parameters) {
    if (is_below(name, prefix)) return;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const std::string parent = name.substr(0, dot);
      if (std::find(candidates.begin(), candidates.end(), parent) == candidates.end()) candidates.push_back(parent);
    }
  }
  std::vector<std::string> top;
  for (const auto& name : candidates) {
    if (name.find('.') == std::string::npos) top.push_back(name);
  }
  fail_usage("{}: no parameter is called '{}' or lies below it{}; the network has {}", key, prefix,
             did_you_mean(prefix, candidates), fmt::join(top, ", "));
}

}  // namespace

void check_prefixes(Module& module, const OptimizerConfig& config, const std::vector<std::string>& freeze) {
  const NamedTensors all = named_parameters(module.network());
  for (const auto& prefix : freeze) check_prefix("train.freeze", prefix, all);
  for (const auto& factor : parse_factors(config.factors)) check_prefix("optimizer.factors", factor.prefix, all);
  const bool nothing_left =
      std::all_of(all.begin(), all.end(), [&](const auto& item) { return is_below_any(item.first, freeze); });
  if (!all.empty() && nothing_left) {
    fail_usage("train.freeze: nothing is left to train, every parameter is frozen");
  }
}

Optimizers::Optimizers(Module& module, const OptimizerConfig& config, const std::vector<std::string>& freeze) {
  check_prefixes(module, config, freeze);
  const NamedTensors all = named_parameters(module.network());
  const std::vector<Factor> factors = parse_factors(config.factors);
  std::map<std::string, at::Tensor> left(all.begin(), all.end());
  std::set<std::string> labelled;
  for (const auto& axis : module.labelled_axes()) labelled.insert(axis.parameter);
  for (const auto& wanted : module.turns()) {
    Turn turn{.name = wanted.name,
              .times = wanted.times,
              .learning_rate_factor = wanted.learning_rate_factor,
              .parameters = {},
              .optimizer = nullptr};
    std::vector<OptimizedGroup> groups;
    std::set<std::string> members;
    for (const auto& group : wanted.groups) {
      // A group whose parameters have different factors becomes several; so does one with matrices and other
      // parameters.
      std::map<std::pair<double, bool>, OptimizedGroup> parts;
      for (const auto& name : group.names) {
        const auto found = left.find(name);
        if (found == left.end()) fail("optimizer: no parameter '{}', or it is in two groups", name);
        const bool is_frozen = is_below_any(name, freeze);
        found->second.requires_grad_(!is_frozen);
        if (!is_frozen) {
          double factor = group.learning_rate_factor;
          for (const auto& f : factors) factor *= is_below(name, f.prefix) ? f.value : 1;
          const at::Tensor& tensor = found->second;
          const bool is_hidden = group.weight_decay && tensor.dim() >= 2 && tensor.size(0) > 1 &&
                                 tensor.numel() > tensor.size(0) && !labelled.contains(name);
          OptimizedGroup& part = parts[{factor, is_hidden}];
          part.names.push_back(name);
          part.parameters.push_back(found->second);
          members.insert(name);
        }
        left.erase(found);
      }
      for (auto& [kind, part] : parts) {
        part.weight_decay = group.weight_decay;
        std::tie(part.learning_rate_factor, part.hidden_matrices) = kind;
        groups.push_back(std::move(part));
      }
    }
    for (const auto& item : all) {
      if (members.contains(item.first)) turn.parameters.push_back(item);
    }
    turn.optimizer = config.make(groups);
    turns_.push_back(std::move(turn));
  }
  if (!left.empty()) fail("optimizer: parameter '{}' is in no group", left.begin()->first);
}

std::map<std::string, at::Tensor> Optimizers::state() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& turn : turns_) all.merge(turn.optimizer->state());
  return all;
}

void Optimizers::load_state(const std::map<std::string, at::Tensor>& saved) {
  const at::NoGradGuard no_grad;
  auto own = state();
  for (auto& [name, tensor] : own) {
    const auto found = saved.find(name);
    if (found == saved.end()) fail_usage("optimizer state: '{}' is missing", name);
    if (found->second.sizes() != tensor.sizes()) {
      fail_usage("optimizer state: '{}' has shape {}, expected {}", name, c10::str(found->second.sizes()),
                 c10::str(tensor.sizes()));
    }
  }
  for (const auto& [name, tensor] : saved) {
    if (!own.contains(name)) fail_usage("optimizer state: '{}' is not known to this optimizer", name);
  }
  for (auto& [name, tensor] : own) tensor.copy_(saved.at(name));
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
