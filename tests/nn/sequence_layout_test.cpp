#include "fovea/nn/sequence_layout.h"

#include "fovea/core/error.h"
#include "tests/test.h"

using fovea::nn::SequenceLayout;

TEST_CASE("a layout knows lengths, offsets, positions and places") {
  const auto layout = SequenceLayout::padded({2, 0, 3}, 4);
  CHECK(layout.batch() == 3);
  CHECK(layout.steps() == 4);
  CHECK(layout.total() == 5);
  CHECK_FALSE(layout.all_valid());
  CHECK(at::equal(layout.lengths(), at::tensor({2, 0, 3}, at::kLong)));
  CHECK(at::equal(layout.positions(), at::tensor({0, 1, 2, 3}, at::kLong)));
  CHECK(at::equal(layout.valid().sum(1), layout.lengths()));

  const auto packed = layout.as_packed();
  CHECK(packed.is_packed());
  CHECK(at::equal(packed.offsets(), at::tensor({0, 2, 2, 5}, at::kInt)));
  CHECK(at::equal(packed.positions(), at::tensor({0, 1, 0, 1, 2}, at::kLong)));
  CHECK(packed.steps() == 4);
  CHECK_FALSE(packed.as_padded().is_packed());
  CHECK(SequenceLayout::packed({2, 0, 3}).steps() == 3);
  CHECK(SequenceLayout::full(2, 3).all_valid());
}

TEST_CASE("packing and padding undo each other, gradients too") {
  const auto layout = SequenceLayout::padded({2, 0, 3, 1}, 3);
  const at::Tensor x = at::randn({4, 3, 5}).requires_grad_();
  const at::Tensor packed = layout.pack(x);
  CHECK(packed.sizes() == at::IntArrayRef({6, 5}));
  const at::Tensor back = layout.pad(packed);
  CHECK(at::equal(back, layout.zero_padding(x)));

  const at::Tensor upstream = at::randn({4, 3, 5});
  const auto grad = torch::autograd::grad({back}, {x}, {upstream})[0];
  CHECK(at::equal(grad, layout.zero_padding(upstream)));
  CHECK(at::equal(layout.pack(at::arange(12).view({4, 3})), at::tensor({0, 1, 6, 7, 8, 9}, at::kLong)));
}

TEST_CASE("what stands in the padding goes nowhere") {
  const auto layout = SequenceLayout::padded({1, 2}, 2);
  at::Tensor x = at::ones({2, 2, 3});
  x.index_put_({0, 1}, std::numeric_limits<float>::quiet_NaN());
  CHECK(layout.zero_padding(x).sum().item<float>() == 9.0f);
  CHECK(layout.pad(layout.pack(x)).sum().item<float>() == 9.0f);
  const auto full = SequenceLayout::full(2, 2);
  CHECK(full.zero_padding(x).is_same(x));
}

TEST_CASE("empty batches and empty sequences have shapes") {
  const auto none = SequenceLayout::padded(std::vector<int64_t>{}, 4);
  CHECK(none.pack(at::zeros({0, 4, 2})).sizes() == at::IntArrayRef({0, 2}));
  CHECK(none.pad(at::zeros({0, 2})).sizes() == at::IntArrayRef({0, 4, 2}));
  const auto empty = SequenceLayout::packed({0, 0});
  CHECK(empty.total() == 0);
  CHECK(empty.pad(at::zeros({0, 2})).sizes() == at::IntArrayRef({2, 0, 2}));
}

TEST_CASE("layouts refuse what does not fit") {
  CHECK_THROWS_WITH(SequenceLayout::padded({1, 5}, 4), ContainsSubstring("[0, 4], got 5"));
  CHECK_THROWS_WITH(SequenceLayout::padded({-1}, 4), ContainsSubstring("got -1"));
  const auto layout = SequenceLayout::padded({1, 2}, 2);
  CHECK_THROWS_WITH(layout.pack(at::zeros({2, 3, 1})), ContainsSubstring("expected (2, 2, ...) to pack"));
  CHECK_THROWS_WITH(layout.pad(at::zeros({4, 1})), ContainsSubstring("expected (3, ...) to pad"));
  const auto on_device = SequenceLayout::padded(at::tensor({1, 2}, at::kLong), 2);
  CHECK(on_device.total() == -1);
  CHECK_FALSE(on_device.all_valid());
  CHECK_THROWS_WITH(on_device.as_packed(), ContainsSubstring("lengths on the host"));
}
