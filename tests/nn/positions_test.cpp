#include "fovea/nn/positions.h"

#include "fovea/core/error.h"
#include "fovea/nn/attention.h"
#include "fovea/nn/positional_encoding.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;
using fovea_tests::max_difference;

namespace {

at::Tensor at_positions(int64_t first, int64_t count) {
  return at::arange(first, first + count, at::kLong);
}

}  // namespace

TEST_CASE("rotary positions turn pairs as the paper says, element by element") {
  const int64_t steps = 5, dim = 6;
  const at::Tensor x = at::randn({2, 3, steps, dim}, at::kDouble);
  const at::Tensor y = rotate(x, rotation_of(at_positions(7, steps), dim, x));
  at::Tensor expected = at::zeros_like(x);
  for (int64_t i = 0; i < steps; ++i) {
    for (int64_t c = 0; c < dim / 2; ++c) {
      const double angle = static_cast<double>(7 + i) / std::pow(10000.0, 2.0 * static_cast<double>(c) / dim);
      const at::Tensor a = x.select(2, i).select(-1, 2 * c), b = x.select(2, i).select(-1, 2 * c + 1);
      expected.select(2, i).select(-1, 2 * c).copy_(a * std::cos(angle) - b * std::sin(angle));
      expected.select(2, i).select(-1, 2 * c + 1).copy_(a * std::sin(angle) + b * std::cos(angle));
    }
  }
  CHECK(max_difference(y, expected) < 1e-12);
  // Packed: (total, heads, head_dim).
  const at::Tensor packed = x[0].transpose(0, 1);
  CHECK(at::equal(rotate(packed, rotation_of(at_positions(7, steps), dim, x), true), y[0].transpose(0, 1)));
  CHECK_THROWS_WITH(rotation_of(at_positions(0, 2), 5, x), ContainsSubstring("must be even, got 5"));
}

TEST_CASE("scores of rotary positions depend on the distance only") {
  const int64_t dim = 8, steps = 6;
  const at::Tensor q = at::randn({1, 2, steps, dim}, at::kDouble), k = at::randn({1, 2, steps, dim}, at::kDouble);
  const auto scores = [&](int64_t first) {
    const Rotation rotation = rotation_of(at_positions(first, steps), dim, q);
    return at::matmul(rotate(q, rotation), rotate(k, rotation).transpose(-2, -1));
  };
  for (const int64_t first : {1, 17, 900}) CHECK(max_difference(scores(first), scores(0)) < 1e-9);
  CHECK(max_difference(scores(0), at::matmul(q, k.transpose(-2, -1))) > 0.1);
  // Lengths stay: only the direction changes.
  CHECK(max_difference(rotate(q, rotation_of(at_positions(3, steps), dim, q)).norm(2, -1), q.norm(2, -1)) < 1e-12);
}

TEST_CASE("ALiBi's slopes are the published ones, for any number of heads") {
  const auto slopes = [](int64_t heads) { return alibi_slopes(heads, at::zeros({1}, at::kLong)); };
  CHECK(max_difference(slopes(8), at::tensor({0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625})) ==
        0);
  CHECK(max_difference(slopes(1), at::tensor({0.00390625})) == 0);
  CHECK(max_difference(slopes(2), at::tensor({0.0625, 0.00390625})) == 0);
  // As the authors' get_slopes gives them.
  CHECK(max_difference(slopes(3), at::tensor({0.0625, 0.00390625, 0.25})) < 1e-7);
  CHECK(max_difference(slopes(6), at::tensor({0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125})) < 1e-7);
  CHECK(max_difference(slopes(12), at::tensor({0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
                                               0.7071067811865476, 0.35355339059327384, 0.17677669529663692,
                                               0.08838834764831849})) < 1e-7);
  CHECK_THROWS_WITH(slopes(0), ContainsSubstring("at least one head, got 0"));
}

TEST_CASE("ALiBi's bias falls with the distance on either side of where a query stands") {
  const auto queries = SequenceLayout::full(2, 3), keys = SequenceLayout::full(2, 5);
  const at::Tensor bias = AttentionMask::cross(queries, keys).with_alibi(2).bias();
  REQUIRE(bias.sizes() == at::IntArrayRef({1, 2, 3, 5}));
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        const double distance = std::abs(static_cast<double>(i + 2 - j));
        CHECK(bias[0][h][i][j].item<double>() == -distance * (h == 0 ? 0.0625 : 0.00390625));
      }
    }
  }
  const at::Tensor more = at::randn({2, 1, 3, 5});
  CHECK(at::equal(AttentionMask::cross(queries, keys).with_bias(more).with_alibi(2).bias(), more + bias));
}

TEST_CASE("positions within attention: padded and packed, flash and plain, and step by step are one") {
  at::manual_seed(1);
  const auto layout = SequenceLayout::padded({3, 6, 0, 1}, 6);
  const at::Tensor x = at::randn({4, 6, 12});
  for (const bool rotary : {false, true}) {
    const auto placed = [&](const AttentionMask& mask) { return rotary ? mask.with_rotary() : mask.with_alibi(3); };
    for (const bool causal : {false, true}) {
      std::vector<at::Tensor> outputs, gradients;
      for (const auto path : {AttentionPath::kPlain, AttentionPath::kFlash}) {
        torch::manual_seed(2);
        MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 12, .num_heads = 3, .path = path});
        for (const bool packed : {false, true}) {
          const at::Tensor in = x.clone().requires_grad_();
          const at::Tensor t = packed ? layout.pack(in) : in;
          const at::Tensor y =
              attention->forward(t, t, t, placed(AttentionMask::self(packed ? layout.as_packed() : layout, causal)));
          outputs.push_back(packed ? layout.pad(y) : layout.zero_padding(y));
          outputs.back().square().sum().backward();
          gradients.push_back(in.grad());
        }
        if (!causal) continue;
        const at::NoGradGuard no_grad;
        const at::Tensor forced =
            attention->forward(x, x, x, placed(AttentionMask::self(SequenceLayout::full(x), true)));
        for (const int64_t at_once : {1, 2, 3}) {
          Cache cache = attention->make_cache(x, 8);
          for (int64_t t = 0; t < 6; t += at_once) {
            CacheCursor cursor(cache);
            const at::Tensor now = x.narrow(1, t, at_once);
            const auto mask =
                placed(AttentionMask(SequenceLayout::full(now), SequenceLayout::full(now, t + at_once), true));
            CHECK(max_difference(attention->step(now, cursor, mask), forced.narrow(1, t, at_once)) < 1e-5);
            cursor.check_end();
          }
        }
      }
      for (size_t i = 0; i < outputs.size(); ++i) {
        INFO("rotary " << rotary << ", causal " << causal << ", way " << i);
        CHECK(max_difference(outputs[i], outputs[0]) < 1e-5);
        CHECK(max_difference(gradients[i], gradients[0]) < 1e-4);
      }
    }
  }
}

TEST_CASE("rotary attention has the right gradients, and does not care where a sequence starts") {
  torch::manual_seed(3);
  const auto layout = SequenceLayout::padded({3, 1}, 3);
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 8, .num_heads = 2});
  attention->to(at::kDouble);
  const auto mask = [](const SequenceLayout& l) { return AttentionMask::self(l, true).with_rotary(); };
  CHECK(fovea_tests::finite_difference_error(
            [&](const std::vector<at::Tensor>& in) {
              return layout.zero_padding(attention->forward(in[0], in[0], in[0], mask(layout)));
            },
            {at::randn({2, 3, 8})}) < 1e-8);
  // The same tokens behind others, which a window hides.
  const at::Tensor x = at::randn({1, 4, 8}, at::kDouble), before = at::randn({1, 9, 8}, at::kDouble);
  const at::Tensor longer = at::cat({before, x}, 1);
  const auto windowed = [&](const at::Tensor& t) {
    return attention->forward(t, t, t, mask(SequenceLayout::full(t)).with_window(0, -1));
  };
  CHECK(max_difference(windowed(longer).narrow(1, 9, 4), windowed(x)) < 1e-12);
  const at::Tensor y = at::randn({1, 2, 8}, at::kDouble);
  DotProductAttention dot(0.0);
  const auto cross = AttentionMask::cross(SequenceLayout::full(y), SequenceLayout::full(x)).with_rotary();
  const at::Tensor expected =
      at::matmul(at::softmax(at::matmul(rotate(y, rotation_of(at_positions(2, 2), 8, y)),
                                        rotate(x, rotation_of(at_positions(0, 4), 8, x)).transpose(1, 2)) /
                                 std::sqrt(8.0),
                             -1),
                 x);
  CHECK(max_difference(dot->forward(y, x, x, cross), expected) < 1e-12);
  CHECK_THROWS_WITH(AdditiveAttention(8, 8, 4, 0.0)->forward(y, x, x, cross), ContainsSubstring("no dot product"));
}

TEST_CASE("schemes that add nothing to the embeddings keep no table and have no longest sequence") {
  for (const Positions positions : {Positions::kNone, Positions::kRotary, Positions::kAlibi, Positions::kT5}) {
    INFO(fovea::name_of(positions));
    PositionalEncoding encoding(PositionalEncodingOptions{
        .num_hiddens = 8, .num_heads = 2, .dropout = 0.5, .max_len = 4, .positions = positions});
    encoding->eval();
    const at::Tensor x = at::randn({2, 9, 8});
    CHECK(at::equal(encoding->forward(x, SequenceLayout::full(x)), x));
    CHECK(at::equal(encoding->step(x.narrow(1, 0, 1), 8), x.narrow(1, 0, 1)));
    CHECK(encoding->parameters().empty() == (positions != Positions::kT5));
    CHECK(encoding->buffers().empty());
    encoding->train();
    CHECK_FALSE(at::equal(encoding->forward(x, SequenceLayout::full(x)), x));  // dropout
    const AttentionMask mask = encoding->for_attention(AttentionMask::self(SequenceLayout::full(x)));
    CHECK(mask.rotary() == (positions == Positions::kRotary));
    CHECK(mask.bias().defined() == (positions == Positions::kAlibi || positions == Positions::kT5));
  }
  CHECK_THROWS_WITH(PositionalEncoding(PositionalEncodingOptions{
                        .num_hiddens = 6, .num_heads = 2, .max_len = 4, .positions = Positions::kRotary}),
                    ContainsSubstring("even, got 6 / 2"));
}

TEST_CASE("T5's buckets: near ones one by one, far ones by their logarithm, both directions apart") {
  const at::Tensor distance =
      at::tensor(std::vector<int64_t>{0, -1, -7, -8, -16, -64, -127, -128, -5000, 1, 7, 8, 5000});
  // As transformers' T5Attention._relative_position_bucket gives them.
  CHECK(at::equal(t5_buckets(distance, true, 32, 128),
                  at::tensor(std::vector<int64_t>{0, 1, 7, 8, 10, 14, 15, 15, 15, 17, 23, 24, 31})));
  CHECK(at::equal(t5_buckets(distance, false, 32, 128),
                  at::tensor(std::vector<int64_t>{0, 1, 7, 8, 16, 26, 31, 31, 31, 0, 0, 0, 0})));
}
