#include "fovea/nn/positional_encoding.h"

#include "fovea/core/error.h"
#include "fovea/train/module.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;

TEST_CASE("positional encoding equals d2l's") {
  const fovea_tests::Golden golden("positional_encoding");
  const auto c = golden.at("sinusoidal");
  PositionalEncoding encoding(
      PositionalEncodingOptions{.num_hiddens = c.integer("num_hiddens"), .max_len = c.integer("max_len")});
  const at::Tensor x = c.input("X");
  CHECK(fovea_tests::max_difference(encoding->forward(x, SequenceLayout::full(3, 7)), c.output("output")) < 1e-5);
  const at::Tensor table = encoding->forward(at::zeros({1, 60, 24}), SequenceLayout::full(1, 60));
  CHECK(fovea_tests::max_difference(table[0], c.output("P").view({60, 24})) < 1e-5);
}

TEST_CASE("padded, packed and step by step give a token the same encoding") {
  for (const Positions positions : {Positions::kSinusoidal, Positions::kLearned}) {
    const bool learned = positions == Positions::kLearned;
    PositionalEncoding encoding(PositionalEncodingOptions{.num_hiddens = 7, .max_len = 5, .positions = positions});
    const auto layout = SequenceLayout::padded({2, 5, 0}, 5);
    const at::Tensor x = at::randn({3, 5, 7});
    const at::Tensor padded = encoding->forward(x, layout);
    CHECK(at::equal(layout.pack(padded), encoding->forward(layout.pack(x), layout.as_packed())));
    for (int64_t t = 0; t < 5; ++t) {
      CHECK(at::equal(encoding->step(x.narrow(1, t, 1), t), padded.narrow(1, t, 1)));
    }
    // Sinusoids are computed, not learned: no checkpoint holds them.
    CHECK(fovea::train::persistent_tensors(*encoding).size() == (learned ? 1u : 0u));
    CHECK(encoding->named_buffers().size() == (learned ? 0u : 1u));
  }
}

TEST_CASE("C24: a sequence longer than the table is refused, naming both") {
  PositionalEncoding encoding(PositionalEncodingOptions{.num_hiddens = 4, .max_len = 16});
  CHECK_NOTHROW(encoding->forward(at::zeros({1, 16, 4}), SequenceLayout::full(1, 16)));
  CHECK_THROWS_WITH(encoding->forward(at::zeros({1, 17, 4}), SequenceLayout::full(1, 17)),
                    ContainsSubstring("17 tokens, the table 16"));
  CHECK_NOTHROW(encoding->step(at::zeros({1, 1, 4}), 15));
  CHECK_THROWS_AS(encoding->step(at::zeros({1, 1, 4}), 16), fovea::Error);
}
