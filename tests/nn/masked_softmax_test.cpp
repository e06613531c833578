#include "fovea/nn/masked_softmax.h"

#include "fovea/core/error.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;
using fovea_tests::Golden;

TEST_CASE("masked softmax equals d2l's") {
  const Golden golden("masked_softmax");
  for (const auto& name : golden.cases()) {
    INFO(name);
    const auto c = golden.at(name);
    const at::Tensor x = c.input("X").requires_grad_();
    const at::Tensor y = masked_softmax(x, c.optional_input("valid_lens"));
    CHECK(fovea_tests::max_difference(y, c.output("output")) < 1e-6);
    (y * c.input("upstream")).sum().backward();
    CHECK(fovea_tests::max_difference(x.grad(), c.get("grad_input.X")) < 1e-6);
  }
}

TEST_CASE("C01 C02: a row without a valid key is 0 and has gradient 0") {
  const at::Tensor lens_1d = at::tensor({0, 3}, at::kLong);
  const at::Tensor lens_2d = at::tensor({2, 0, 1, 4}, at::kLong).view({2, 2});
  for (const at::Tensor& lens : {lens_1d, lens_2d}) {
    const at::Tensor x = at::randn({2, 2, 4}).requires_grad_();
    const at::Tensor y = masked_softmax(x, lens);
    const at::Tensor per_row = lens.dim() == 1 ? lens.unsqueeze(1).expand({2, 2}) : lens;
    CHECK(at::isfinite(y).all().item<bool>());
    CHECK(at::allclose(y.sum(-1), per_row.gt(0).to(at::kFloat)));
    y.mul(at::randn({2, 2, 4})).sum().backward();
    CHECK(at::isfinite(x.grad()).all().item<bool>());
    const at::Tensor masked = at::arange(4) >= per_row.unsqueeze(-1);
    CHECK(x.grad().masked_select(masked).eq(0).all().item<bool>());
    CHECK(y.masked_select(masked).eq(0).all().item<bool>());
  }
  // The neighbour does not notice.
  const at::Tensor x = at::randn({2, 2, 4});
  CHECK(at::equal(masked_softmax(x, lens_1d)[1], masked_softmax(x.narrow(0, 1, 1), at::tensor({3}, at::kLong))[0]));
}

TEST_CASE("C06: half precision neither overflows nor leaks") {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    at::Tensor x = at::zeros({1, 1, 4}, type);
    x[0][0][0] = 5e4;
    x[0][0][1] = -5e4;
    x[0][0][3] = 6e4;
    const at::Tensor y = masked_softmax(x, at::tensor({3}, at::kLong));
    INFO(c10::toString(type));
    CHECK(at::isfinite(y).all().item<bool>());
    CHECK(y[0][0][0].item<double>() == 1.0);
    CHECK(y[0][0][3].item<double>() == 0.0);
  }
}

TEST_CASE("lengths beyond the keys mean all keys, other shapes are refused") {
  const at::Tensor x = at::randn({2, 3, 4});
  CHECK(at::allclose(masked_softmax(x, at::tensor({9, 4}, at::kLong)), at::softmax(x, -1)));
  CHECK_THROWS_WITH(masked_softmax(x, at::tensor({1, 2, 3}, at::kLong)), ContainsSubstring("expected (2) or (2, 3)"));
  CHECK_THROWS_WITH(masked_softmax(x, at::tensor({1, -2}, at::kLong)), ContainsSubstring("negative, got -2"));
  CHECK_THROWS_WITH(masked_softmax(at::randn({3, 4}), {}), ContainsSubstring("(batch, queries, keys)"));
  CHECK(masked_softmax(at::randn({0, 3, 4}), at::zeros({0}, at::kLong)).sizes() == at::IntArrayRef({0, 3, 4}));
}
