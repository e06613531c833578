#include "fovea/nn/linear.h"

#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using at::Tensor;
using fovea_tests::max_difference;

namespace {

// Restores the choice.
class Library {
 public:
  explicit Library(nn::MatmulLibrary library) { nn::set_matmul_library(library); }
  ~Library() { nn::set_matmul_library(nn::MatmulLibrary::kAuto); }
};

struct Sizes {
  std::vector<int64_t> leading;
  int64_t in, out;
};

// Few enough multiply-adds are torch's; these are not.
const std::vector<Sizes> kSizes = {{{64, 50}, 96, 288}, {{6400}, 192, 96}, {{3, 32}, 130, 97}, {{1003}, 640, 320}};

}  // namespace

TEST_CASE("both libraries give torch's linear and its gradients") {
  for (const auto library : {nn::MatmulLibrary::kMkl, nn::MatmulLibrary::kOneDnn}) {
    const Library use(library);
    CHECK(nn::matmul_library() == (library == nn::MatmulLibrary::kMkl ? "MKL" : "oneDNN"));
    for (const auto& [leading, in, out] : kSizes) {
      for (const bool has_bias : {false, true}) {
        INFO(in << " to " << out << ", bias " << has_bias);
        at::manual_seed(in);
        auto sizes = leading;
        sizes.push_back(in);
        const auto make = [&](at::ScalarType type, Tensor t) { return t.to(type).detach().requires_grad_(); };
        const Tensor x = at::randn(sizes), w = at::randn({out, in}) / 8, b = has_bias ? at::randn({out}) : Tensor();
        const auto run = [&](at::ScalarType type, bool ours) {
          std::vector<Tensor> leaves = {make(type, x), make(type, w)};
          if (has_bias) leaves.push_back(make(type, b));
          const Tensor bias = has_bias ? leaves[2] : Tensor();
          Tensor y = ours ? nn::linear(leaves[0], leaves[1], bias) : at::linear(leaves[0], leaves[1], bias);
          auto all = torch::autograd::grad({at::sin(y).sum()}, leaves);
          all.push_back(y);
          return all;
        };
        const auto exact = run(at::kDouble, false), torchs = run(at::kFloat, false), found = run(at::kFloat, true);
        for (size_t i = 0; i < exact.size(); ++i) {
          INFO("tensor " << i);
          CHECK(found[i].sizes() == exact[i].sizes());
          CHECK(max_difference(found[i], exact[i]) <=
                2 * max_difference(torchs[i], exact[i]) + 4 * 1.2e-7 * exact[i].abs().max().item<double>());
        }
      }
    }
  }
}

TEST_CASE("what the other library does not take is torch's") {
  const Library use(nn::MatmulLibrary::kOneDnn);
  const Tensor w = at::randn({96, 64}, at::kDouble), x = at::randn({6400, 64}, at::kDouble);
  CHECK(at::equal(nn::linear(x, w), at::linear(x, w)));
  CHECK(nn::linear(at::ones({0, 64}), w.to(at::kFloat)).sizes() == at::IntArrayRef({0, 96}));
  CHECK(nn::linear(at::ones({64}), w.to(at::kFloat)).sizes() == at::IntArrayRef({96}));
  CHECK_THROWS_AS(nn::linear(at::ones({6400, 63}), w.to(at::kFloat)), c10::Error);
}

TEST_CASE("a second derivative goes through torch") {
  const Library use(nn::MatmulLibrary::kOneDnn);
  const Tensor x = at::randn({6400, 64}).requires_grad_(), w = at::randn({96, 64}).requires_grad_();
  const Tensor y = nn::linear(x, w);
  const Tensor first = torch::autograd::grad({y.square().sum()}, {w}, {}, true, true)[0];  // 2 w x^T x
  const Tensor second = torch::autograd::grad({first.sum()}, {w})[0];
  const Tensor expected = (2 * at::ones({96, 64}).matmul(x.detach().t().matmul(x.detach())));
  CHECK(at::allclose(second, expected, 1e-3, 1e-1));
}

TEST_CASE("its parameters are those of torch's module, its strides may be any") {
  const Library use(nn::MatmulLibrary::kOneDnn);
  nn::Linear layer(64, 96);
  CHECK(layer->named_parameters().keys() == std::vector<std::string>{"weight", "bias"});
  const Tensor x = at::randn({64, 6400}).t();
  CHECK(at::allclose(layer->forward(x), at::linear(x, layer->weight, layer->bias), 1e-4, 1e-5));
}
