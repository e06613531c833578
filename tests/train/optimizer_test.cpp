#include "fovea/train/optimizer.h"

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/train/module.h"
#include "tests/test.h"

using namespace fovea;

namespace {

struct Net : torch::nn::Module {
  at::Tensor a, b, tied;
  Net() {
    torch::manual_seed(1);
    a = register_parameter("a", at::randn({5, 3}));
    b = register_parameter("b", at::randn({7}));
  }
};

// A module with nothing but parameters; its loss is set by hand through the gradients.
struct Bare : train::Module {
  Net net;
  bool decay_b = true;
  torch::nn::Module& network() override { return net; }
  train::LossTerms training_step(const data::Batch&, int64_t) override { return {}; }
  std::vector<int64_t> loss_counts(const data::Batch&, int64_t) const override { return {}; }
  train::LossTerms validation_step(const data::Batch&) override { return {}; }
  std::vector<train::ParameterGroup> parameter_groups() override {
    return {{.names = {"a"}}, {.names = {"b"}, .weight_decay = decay_b}};
  }
};

void set_gradients(std::vector<at::Tensor> parameters, int64_t step) {
  for (auto& p : parameters) {
    p.mutable_grad() = (p.detach() * 0.3 + static_cast<double>(step % 3) - 1.0).clone();
  }
}

template <typename TorchOptimizer, typename TorchOptions>
void check_like_torch(const train::OptimizerConfig& config, const TorchOptions& options) {
  Bare ours;
  Net theirs;
  train::Optimizers optimizers(ours, config);
  train::Optimizer* const optimizer = optimizers.turns()[0].optimizer.get();
  TorchOptimizer reference({theirs.a, theirs.b}, options);
  for (int64_t step = 0; step < 20; ++step) {
    set_gradients({ours.net.a, ours.net.b}, step);
    set_gradients({theirs.a, theirs.b}, step);
    optimizer->step(config.learning_rate);
    reference.step();
    CHECK(at::allclose(ours.net.a, theirs.a, 1e-5, 1e-6));
    CHECK(at::allclose(ours.net.b, theirs.b, 1e-5, 1e-6));
  }
}

}  // namespace

TEST_CASE("adam, adamw and sgd step as torch's own") {
  train::AdamConfig adam(false);
  adam.learning_rate = 0.01;
  adam.weight_decay = 0.1;
  check_like_torch<torch::optim::Adam>(adam, torch::optim::AdamOptions(0.01).weight_decay(0.1));
  train::AdamConfig adamw(true);
  adamw.learning_rate = 0.01;
  check_like_torch<torch::optim::AdamW>(adamw, torch::optim::AdamWOptions(0.01).weight_decay(0.01));
  train::SgdConfig sgd;
  sgd.learning_rate = 0.05;
  check_like_torch<torch::optim::SGD>(sgd, torch::optim::SGDOptions(0.05));
  sgd.momentum = 0.9;
  sgd.weight_decay = 0.01;
  check_like_torch<torch::optim::SGD>(sgd, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
  sgd.nesterov = true;
  check_like_torch<torch::optim::SGD>(sgd,
                                      torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01).nesterov(true));
}

namespace {

// The iteration leaves singular vectors as they are and takes each singular value through a polynomial.
at::Tensor orthogonalized_by_svd(const at::Tensor& matrix, int64_t ns_steps) {
  auto [u, s, vt] = at::linalg_svd(matrix / matrix.norm(), /*full_matrices=*/false);
  for (int64_t i = 0; i < ns_steps; ++i) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
  return at::matmul(u * s, vt);
}

// A convolution, a matrix of named rows, and a bias.
struct Convolution : torch::nn::Module {
  at::Tensor conv, head, bias;
  Convolution() {
    torch::manual_seed(2);
    conv = register_parameter("conv", at::randn({4, 2, 3, 3}, at::kDouble));
    head = register_parameter("head", at::randn({5, 3}, at::kDouble));
    bias = register_parameter("bias", at::randn({7}, at::kDouble));
  }
  std::vector<at::Tensor> all() const { return {conv, head, bias}; }
};

struct Classifier : Bare {
  Convolution classifier;
  torch::nn::Module& network() override { return classifier; }
  std::vector<train::ParameterGroup> parameter_groups() override { return train::Module::parameter_groups(); }
  std::vector<train::LabelledAxis> labelled_axes() const override { return {{"head", 0, "classes"}}; }
};

}  // namespace

TEST_CASE("muon brings the singular values of a step near to 1") {
  torch::manual_seed(3);
  const at::Tensor wide = at::randn({2, 6, 20}, at::kDouble), tall = at::randn({2, 20, 6}, at::kDouble);
  for (const at::Tensor& matrices : {wide, tall}) {
    const at::Tensor steps = train::orthogonalize(matrices, 5);
    for (int64_t i = 0; i < 2; ++i) {
      CHECK(at::allclose(steps[i], orthogonalized_by_svd(matrices[i], 5), 1e-9, 1e-9));
      const at::Tensor values = at::linalg_svdvals(steps[i]);
      CHECK(values.min().item<double>() > 0.6);
      CHECK(values.max().item<double>() < 1.3);
    }
  }
  CHECK(at::equal(train::orthogonalize(at::zeros({1, 3, 4}), 5), at::zeros({1, 3, 4})));
}

TEST_CASE("muon steps hidden matrices and leaves the rest to adamw") {
  for (const auto scale : {train::MuonScale::kMatchRmsAdamW, train::MuonScale::kOriginal}) {
    Classifier ours;
    Convolution theirs;
    train::MuonConfig config;
    config.weight_decay = 0.1;
    config.scale = scale;
    train::Optimizers optimizers(ours, config);
    torch::optim::AdamW adamw({theirs.head, theirs.bias}, torch::optim::AdamWOptions(0.02).weight_decay(0.1));
    at::Tensor momentum = at::zeros({4, 18}, at::kDouble);
    const double factor = scale == train::MuonScale::kOriginal ? 1.0 : 0.2 * std::sqrt(18.0);
    for (int64_t step = 0; step < 5; ++step) {
      set_gradients(ours.classifier.all(), step);
      set_gradients(theirs.all(), step);
      optimizers.turns()[0].optimizer->step(0.02);
      adamw.step();
      {
        const at::NoGradGuard no_grad;
        const at::Tensor gradient = theirs.conv.grad().flatten(1);
        momentum = 0.95 * momentum + 0.05 * gradient;
        const at::Tensor direction = orthogonalized_by_svd(0.05 * gradient + 0.95 * momentum, 5);
        theirs.conv.mul_(1 - 0.02 * 0.1).sub_(0.02 * factor * direction.view({4, 2, 3, 3}));
      }
      CHECK(at::allclose(ours.classifier.conv, theirs.conv, 1e-6, 1e-8));
      CHECK(at::allclose(ours.classifier.head, theirs.head, 1e-6, 1e-8));
      CHECK(at::allclose(ours.classifier.bias, theirs.bias, 1e-6, 1e-8));
    }
    CHECK(optimizers.state().contains("conv.momentum_buffer"));
    CHECK(optimizers.state().contains("head.exp_avg"));
    CHECK(!optimizers.state().contains("conv.exp_avg"));
  }
}

TEST_CASE("weight decay leaves out the group that wants none") {
  Bare module;
  module.decay_b = false;
  train::AdamConfig config(true);
  config.weight_decay = 0.5;
  train::Optimizers optimizers(module, config);
  train::Optimizer* const optimizer = optimizers.turns()[0].optimizer.get();
  const at::Tensor a = module.net.a.detach().clone(), b = module.net.b.detach().clone();
  for (auto p : {module.net.a, module.net.b}) p.mutable_grad() = at::zeros_like(p);
  optimizer->step(0.1);
  CHECK(at::allclose(module.net.a, a * 0.95));
  CHECK(at::equal(module.net.b, b));
}

TEST_CASE("a parameter without a gradient stays as it is") {
  Bare module;
  train::Optimizers optimizers(module, train::AdamConfig(false));
  train::Optimizer* const optimizer = optimizers.turns()[0].optimizer.get();
  module.net.a.mutable_grad() = at::ones_like(module.net.a);
  const at::Tensor b = module.net.b.detach().clone();
  optimizer->step(0.1);
  CHECK(at::equal(module.net.b, b));
  CHECK(optimizer->state().at("a.step").item<float>() == 1.0f);
  CHECK(optimizer->state().at("b.step").item<float>() == 0.0f);
}

TEST_CASE("the state goes out and in, and what does not fit is named") {
  Bare one, two;
  train::Optimizers first(one, train::AdamConfig(false)), second(two, train::AdamConfig(false));
  set_gradients({one.net.a, one.net.b}, 0);
  first.turns()[0].optimizer->step(0.1);
  second.load_state(first.state());
  {
    const at::NoGradGuard no_grad;
    two.net.a.copy_(one.net.a);
    two.net.b.copy_(one.net.b);
  }
  for (auto* m : {&one, &two}) set_gradients({m->net.a, m->net.b}, 1);
  first.turns()[0].optimizer->step(0.1);
  second.turns()[0].optimizer->step(0.1);
  CHECK(at::equal(one.net.a, two.net.a));

  auto state = first.state();
  state.erase("a.exp_avg");
  CHECK_THROWS_WITH(second.load_state(state), ContainsSubstring("'a.exp_avg' is missing"));
  state["a.exp_avg"] = at::zeros({2});
  CHECK_THROWS_WITH(second.load_state(state), ContainsSubstring("shape [2], expected [5, 3]"));
  state = first.state();
  state["c.exp_avg"] = at::zeros({2});
  CHECK_THROWS_WITH(second.load_state(state), ContainsSubstring("'c.exp_avg' is not known"));
}

TEST_CASE("tied parameters are one parameter") {
  struct Tied : torch::nn::Module {
    torch::nn::Linear one{nullptr}, two{nullptr};
    Tied() {
      one = register_module("one", torch::nn::Linear(3, 3));
      two = register_module("two", one);
    }
  } net;
  CHECK(net.named_parameters().size() == 4);
  CHECK(train::named_parameters(net).size() == 2);
  CHECK(train::count_parameters(net) == 12);
  CHECK(train::tied_names(net) ==
        std::vector<std::pair<std::string, std::string>>{{"two.weight", "one.weight"}, {"two.bias", "one.bias"}});
}

TEST_CASE("clipping scales all gradients by one factor") {
  Bare module;
  set_gradients({module.net.a, module.net.b}, 0);
  const auto named = train::named_parameters(module.network());
  const at::Tensor all = at::cat({module.net.a.grad().flatten(), module.net.b.grad().flatten()});
  const double norm = all.norm().item<double>();
  CHECK(train::clip_gradients(named, 0).item<double>() == Approx(norm));
  CHECK(train::clip_gradients(named, norm * 2).item<double>() == Approx(norm));
  CHECK(at::allclose(at::cat({module.net.a.grad().flatten(), module.net.b.grad().flatten()}), all));
  train::clip_gradients(named, norm / 4);
  CHECK(at::allclose(at::cat({module.net.a.grad().flatten(), module.net.b.grad().flatten()}), all / 4));
}
