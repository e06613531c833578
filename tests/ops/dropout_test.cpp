#include "fovea/ops/dropout.h"

#include "fovea/nn/dropout.h"
#include "fovea/nn/random.h"
#include "fovea/ops/philox.h"
#include "tests/test.h"

using namespace fovea;

namespace {

at::Tensor key(int64_t seed, int64_t step, int64_t site) {
  return at::tensor({seed, step, site}, at::kLong);
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the published words") {
  // The known answers of Random123's kat_vectors.
  CHECK(ops::philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(ops::philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}) ==
        std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(ops::philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}) ==
        std::array<uint32_t, 4>{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("the kernel and the reference drop the same elements") {
  const at::Tensor rng = key(7, 3, -5);
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const auto& sizes : std::vector<std::vector<int64_t>>{
             {1, 1}, {3, 1}, {5, 33}, {2, 3, 4}, {3, 9, 256}, {2, 4, 9, 9}, {1, 2, 3, 130}, {0, 4, 3}, {2, 0, 3}}) {
      const at::Tensor x = at::randn(sizes).to(type);
      for (const double p : {0.0, 0.1, 0.5, 0.999, 1.0}) {
        INFO(c10::toString(type) << " " << at::IntArrayRef(sizes) << " p " << p);
        const at::Tensor y = ops::dropout(x, rng, p), expected = ops::dropout_reference(x, rng, p);
        CHECK(at::allclose(y.to(at::kDouble), expected.to(at::kDouble), 1e-2, 1e-6));
        CHECK(at::equal(y.eq(0), expected.eq(0)));
      }
    }
  }
}

TEST_CASE("dropout keeps 1 - p of the elements and their mean") {
  const at::Tensor y = ops::dropout(at::ones({64, 100, 96}), key(1, 2, 3), 0.3);
  const double n = static_cast<double>(y.numel());
  CHECK(y.ne(0).sum().item<double>() / n == Approx(0.7).margin(5 * std::sqrt(0.21 / n)));
  CHECK(y.max().item<float>() == Approx(1.0f / 0.7f));
  // Neighbours in any direction fall independently: their product is kept with 0.49.
  const at::Tensor kept = y.ne(0).to(at::kDouble);
  for (int64_t dim = 0; dim < 3; ++dim) {
    const at::Tensor a = kept.narrow(dim, 0, kept.size(dim) - 1), b = kept.narrow(dim, 1, kept.size(dim) - 1);
    CHECK((a * b).mean().item<double>() == Approx(0.49).margin(0.004));
  }
}

TEST_CASE("seed, step and site each give other draws") {
  const at::Tensor x = at::ones({8, 64});
  const at::Tensor base = ops::dropout(x, key(1, 2, 3), 0.5);
  CHECK(at::equal(base, ops::dropout(x, key(1, 2, 3), 0.5)));
  for (const auto& other : {key(2, 2, 3), key(1, 3, 3), key(1, 2, 4), key(2, 1, 3)}) {
    CHECK_FALSE(at::equal(base, ops::dropout(x, other, 0.5)));
  }
}

TEST_CASE("padding, packing and threads do not change a draw") {
  const auto padded = nn::SequenceLayout::padded({3, 0, 5, 1}, 5);
  const auto packed = padded.as_packed();
  const at::Tensor x = at::randn({4, 5, 20});
  const at::Tensor rng = key(1, 2, 3);
  const at::Tensor dropped = ops::dropout(x, rng, 0.4);
  CHECK(at::equal(padded.pack(dropped), ops::dropout(padded.pack(x), rng, 0.4, packed.offsets())));

  const auto wider = nn::SequenceLayout::padded({3, 0, 5, 1}, 9);
  const at::Tensor x9 = at::constant_pad_nd(x, {0, 0, 0, 4});
  CHECK(at::equal(ops::dropout(x9, rng, 0.4).narrow(1, 0, 5), dropped));
  CHECK(at::equal(wider.pack(ops::dropout(x9, rng, 0.4)), padded.pack(dropped)));

  const at::Tensor large = at::randn({64, 50, 256});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = ops::dropout(large, rng, 0.4);
  at::set_num_threads(3);
  CHECK(at::equal(one, ops::dropout(large, rng, 0.4)));
  at::set_num_threads(threads);
}

TEST_CASE("the gradient falls where the value fell, any number of times") {
  const at::Tensor x = at::randn({3, 7, 20}, at::TensorOptions(at::kDouble)).requires_grad_();
  const at::Tensor rng = key(4, 5, 6);
  const at::Tensor y = ops::dropout(x, rng, 0.25);
  const at::Tensor upstream = at::randn({3, 7, 20}, at::kDouble).transpose(0, 1).contiguous().transpose(0, 1);
  const auto grad = torch::autograd::grad({y}, {x}, {upstream}, true, true)[0];
  CHECK(at::equal(grad, ops::dropout(upstream, rng, 0.25)));
  const at::Tensor expanded = at::ones({}, at::kDouble).expand({3, 7, 20});
  CHECK(at::equal(torch::autograd::grad({y}, {x}, {expanded})[0], ops::dropout(expanded.contiguous(), rng, 0.25)));
}

TEST_CASE("a strided input is dropped by its logical index") {
  const at::Tensor x = at::randn({6, 3, 20});
  CHECK(at::equal(ops::dropout(x.transpose(0, 1), key(1, 1, 1), 0.5),
                  ops::dropout(x.transpose(0, 1).contiguous(), key(1, 1, 1), 0.5)));
}

TEST_CASE("dropout refuses what it cannot take") {
  const at::Tensor x = at::ones({2, 3});
  CHECK_THROWS_WITH(ops::dropout(x, key(1, 2, 3), 1.5), ContainsSubstring("[0, 1], got 1.5"));
  CHECK_THROWS_WITH(ops::dropout(at::ones({3}), key(1, 2, 3), 0.5), ContainsSubstring("2 to 4 dimensions"));
  CHECK_THROWS_WITH(ops::dropout(x, at::ones({3}), 0.5), ContainsSubstring("int64"));
  CHECK_THROWS_WITH(ops::dropout(x, key(1, 2, 3), 0.5, at::tensor({0, 1}, at::kInt)), ContainsSubstring("0 to 2"));
  CHECK_THROWS_WITH(ops::dropout(x.to(at::kLong), key(1, 2, 3), 0.5), ContainsSubstring("floating point"));
}

TEST_CASE("a dropout layer draws by its scope and its place") {
  struct Net : torch::nn::Module {
    nn::Dropout a{0.5}, b{0.5};
    Net() {
      register_module("a", a);
      register_module("b", b);
      nn::assign_paths(*this);
    }
  } net;
  const at::Tensor x = at::ones({4, 64});
  const auto draw = [&](nn::Dropout& layer, uint64_t seed, uint64_t step) {
    const nn::RandomScope scope(seed, step);
    return layer->forward(x);
  };
  CHECK(at::equal(draw(net.a, 1, 1), draw(net.a, 1, 1)));
  CHECK_FALSE(at::equal(draw(net.a, 1, 1), draw(net.b, 1, 1)));
  CHECK_FALSE(at::equal(draw(net.a, 1, 1), draw(net.a, 1, 2)));
  {
    const nn::RandomScope outer(1, 1);
    { const nn::RandomScope inner(2, 2); }
    CHECK(at::equal(net.a->forward(x), draw(net.a, 1, 1)));
  }
  // Alone, outside any scope, it is as random as torch's.
  CHECK_FALSE(at::equal(net.a->forward(x), net.a->forward(x)));
  net.eval();
  CHECK(net.a->forward(x).is_same(x));
  CHECK_THROWS_WITH(nn::Dropout(1.5), ContainsSubstring("0 <= p < 1, got 1.5"));
  CHECK_THROWS_WITH(nn::Dropout(-0.1), ContainsSubstring("0 <= p < 1"));
}
