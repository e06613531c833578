#include "fovea/nn/size.h"

#include "tests/test.h"

using namespace fovea::nn;

TEST_CASE("outside tracing a size is a number, and the functions are ATen's") {
  const at::Tensor x = at::arange(24, at::kFloat).view({2, 3, 4});
  CHECK(Size::of(x, 1).value() == 3);
  CHECK(Size::from(at::tensor(int64_t{5})).value() == 5);
  CHECK((Size(3) + 4).value() == 7);
  CHECK((Size(3) - 4).value() == -1);
  CHECK_FALSE((Size::of(x, 0) + 1).traced().defined());
  CHECK(at::equal(narrow(x, 2, 1, 2), x.narrow(2, 1, 2)));
  CHECK(narrow(x, 2, 1, 2).data_ptr() == x.narrow(2, 1, 2).data_ptr());
  CHECK(at::equal(new_zeros(x, {Size(2), 0, 3}), at::zeros({2, 0, 3})));
  CHECK(at::equal(arange(3, x), at::tensor({0, 1, 2}, at::kLong)));
  CHECK(arange(0, x).numel() == 0);
  CHECK(at::equal(add(arange(3, x), Size(2)), at::tensor({2, 3, 4}, at::kLong)));
  CHECK_FALSE(is_tracing());
}
