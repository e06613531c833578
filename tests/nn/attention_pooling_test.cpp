#include "fovea/nn/attention_pooling.h"

#include <torch/torch.h>

#include <cmath>

#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using nn::Kernel;

namespace {

double slow_kernel(Kernel kernel, double u) {
  switch (kernel) {
    case Kernel::kGaussian:
      return std::exp(-u * u / 2);
    case Kernel::kBoxcar:
      return std::abs(u) < 1 ? 1 : 0;
    case Kernel::kConstant:
      return 1;
    case Kernel::kEpanechikov:
      return std::max(0.0, 1 - std::abs(u));
  }
  return 0;
}

at::Tensor entropy_of_rows(const at::Tensor& weights) {
  return -(weights * weights.clamp_min(1e-30).log()).sum(-1);
}

}  // namespace

TEST_CASE("attention pooling equals the book's, kernel by kernel") {
  const fovea_tests::Golden golden("attention_pooling");
  for (const auto& name : golden.cases()) {
    if (name == "learnt") continue;
    CAPTURE(name);
    const auto c = golden.at(name);
    const auto kernel = enum_from_name<Kernel>(name.substr(0, name.find('_')));
    nn::AttentionPooling pooling(nn::AttentionPoolingOptions{kernel, std::stod(name.substr(name.find('_') + 1))});
    nn::AttentionRecorder recorder;
    const at::Tensor y = pooling->forward(c.input("queries").unsqueeze(1), c.input("keys").unsqueeze(1),
                                          c.input("values").unsqueeze(1), {}, &recorder);
    CHECK(fovea_tests::max_difference(y.squeeze(1), c.output("output")) < 1e-5);
    const at::Tensor weights = recorder.records().at(0).weights;
    CHECK(fovea_tests::max_difference(weights.squeeze(0).squeeze(0), c.output("attention_weights")) < 1e-5);
  }
}

TEST_CASE("attention pooling equals a loop over queries and keys, with several features and rows left out") {
  torch::manual_seed(1);
  const at::Tensor queries = at::randn({4, 3}, at::kDouble), keys = at::randn({6, 3}, at::kDouble);
  const at::Tensor values = at::randn({6, 2}, at::kDouble), own = at::tensor({5, 0, 2, 2}, at::kLong);
  for (const Kernel kernel : {Kernel::kGaussian, Kernel::kBoxcar, Kernel::kConstant, Kernel::kEpanechikov}) {
    CAPTURE(name_of(kernel));
    nn::AttentionPooling pooling(nn::AttentionPoolingOptions{kernel, 2.5});
    const at::Tensor y = pooling->forward(queries, keys, values, own);
    for (int64_t q = 0; q < 4; ++q) {
      at::Tensor expected = at::zeros({2}, at::kDouble);
      double total = 0;
      for (int64_t k = 0; k < 6; ++k) {
        if (k == own[q].item<int64_t>()) continue;
        const double weight = slow_kernel(kernel, (queries[q] - keys[k]).norm().item<double>() / 2.5);
        expected += weight * values[k];
        total += weight;
      }
      CHECK(fovea_tests::max_difference(y[q], expected / total) < 1e-12);
    }
  }
}

TEST_CASE("weights sum to 1 however far the keys are, and the row left out has none") {
  const at::Tensor far = at::full({2, 3}, 1e6);
  const at::Tensor allowed = at::tensor({1, 0, 1}, at::kLong).to(at::kBool).expand({2, 3});
  for (const Kernel kernel : {Kernel::kGaussian, Kernel::kBoxcar, Kernel::kConstant, Kernel::kEpanechikov}) {
    const at::Tensor weights = nn::kernel_weights(kernel, far, allowed);
    CHECK(fovea_tests::max_difference(weights, at::tensor({0.5f, 0.0f, 0.5f}).expand({2, 3})) < 1e-6);
  }
}

TEST_CASE("gradients of attention pooling agree with finite differences") {
  torch::manual_seed(2);
  nn::AttentionPooling pooling(nn::AttentionPoolingOptions{.learn_width = true});
  pooling->to(at::kDouble);
  const at::Tensor own = at::tensor({0, 1, 2}, at::kLong);
  CHECK(fovea_tests::finite_difference_error(
            [&](const std::vector<at::Tensor>& in) { return pooling->forward(in[0], in[1], in[2], own); },
            {at::randn({3, 2}, at::kDouble), at::randn({4, 2}, at::kDouble), at::randn({4, 1}, at::kDouble)}) < 1e-6);
}

TEST_CASE("attention pooling refuses what it cannot do") {
  CHECK_THROWS_WITH(nn::AttentionPooling(nn::AttentionPoolingOptions{.bandwidth = 0}),
                    ContainsSubstring("above 0, got 0"));
  CHECK_THROWS_WITH(nn::AttentionPooling(nn::AttentionPoolingOptions{.kernel = Kernel::kBoxcar, .learn_width = true}),
                    ContainsSubstring("a boxcar kernel has no gradient"));
}

TEST_CASE("a narrower kernel is sharper: its weights have less entropy") {
  const at::Tensor x = at::linspace(0, 5, 40).unsqueeze(1);
  at::Tensor before;
  for (const double bandwidth : {2.0, 1.0, 0.5, 0.1}) {
    nn::AttentionRecorder recorder;
    nn::AttentionPooling(nn::AttentionPoolingOptions{.bandwidth = bandwidth})->forward(x, x, x, {}, &recorder);
    const at::Tensor entropy = entropy_of_rows(recorder.records()[0].weights).mean();
    if (before.defined()) CHECK(entropy.item<double>() < before.item<double>());
    before = entropy;
  }
}
