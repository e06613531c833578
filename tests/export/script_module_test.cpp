#include "fovea/export/script_module.h"

#include "fovea/nn/size.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using nn::Size;

namespace {

struct TracedNet : torch::nn::Module {
  TracedNet() {
    weight = register_parameter("weight", at::arange(5, at::kFloat));
    register_module("empty", std::make_shared<torch::nn::ReLUImpl>());
    child = register_module("0", torch::nn::Linear(2, 2));
  }
  at::Tensor weight;
  torch::nn::Linear child{nullptr};
};

at::Tensor run(torch::jit::Module& module, const char* method, const std::vector<at::Tensor>& inputs) {
  return module.get_method(method)({inputs.begin(), inputs.end()}).toTensor();
}

}  // namespace

TEST_CASE("every function of nn/size.h follows its input when traced") {
  TracedNet net;
  const at::NoGradGuard no_grad;
  exports::ScriptModule script(net);
  const at::Tensor x = at::ones({2, 3}), n = at::tensor(int64_t{2});
  script.trace("narrowed", {"x", "n"}, {x, n}, [](const torch::jit::Stack& in) -> torch::jit::IValue {
    const Size at = Size::from(in[1].toTensor());
    return nn::narrow(in[0].toTensor(), 1, at - 1, 1).clone();
  });
  script.trace("first", {"x", "n"}, {x, n}, [](const torch::jit::Stack& in) -> torch::jit::IValue {
    return nn::narrow(in[0].toTensor(), 1, 0, Size::from(in[1].toTensor()) + 1).clone();
  });
  script.trace("zeros", {"x", "n"}, {x, n}, [](const torch::jit::Stack& in) -> torch::jit::IValue {
    const at::Tensor t = in[0].toTensor();
    return nn::new_zeros(t, {Size::of(t, 0), 4, Size::from(in[1].toTensor()), Size(7) - Size::of(t, 1)});
  });
  script.trace("range", {"x"}, {x}, [](const torch::jit::Stack& in) -> torch::jit::IValue {
    const Size steps = Size::of(in[0].toTensor(), 1);
    return nn::add(nn::arange(steps, in[0].toTensor()), steps - Size::of(in[0].toTensor(), 0));
  });
  auto module = script.finish();
  const at::Tensor y = at::arange(30, at::kFloat).view({6, 5});
  CHECK(at::equal(run(module, "narrowed", {y, at::tensor(int64_t{4})}), y.narrow(1, 3, 1)));
  CHECK(at::equal(run(module, "first", {y, at::tensor(int64_t{3})}), y.narrow(1, 0, 4)));
  CHECK(run(module, "zeros", {y, at::tensor(int64_t{9})}).sizes() == at::IntArrayRef({6, 4, 9, 2}));
  CHECK(at::equal(run(module, "range", {y}), at::arange(5) - 1));
  CHECK_FALSE(nn::is_tracing());
}

TEST_CASE("the tree is mirrored, without what holds no tensor") {
  TracedNet net;
  exports::ScriptModule script(net);
  script.add("answer", int64_t{42});
  script.define("def forward(self, x):\n    return x * self.weight + self.answer\n");
  auto module = script.finish();
  CHECK(module.attr("answer").toInt() == 42);
  CHECK_FALSE(module.hasattr("empty"));
  CHECK(module.attr("0").toModule().attr("weight").toTensor().data_ptr() == net.child->weight.data_ptr());
  CHECK_FALSE(module.is_training());
  CHECK(at::equal(module.forward({at::ones({5})}).toTensor(), net.weight + 42));
  CHECK(net.weight.requires_grad());
  CHECK_FALSE(module.attr("weight").toTensor().requires_grad());
}
