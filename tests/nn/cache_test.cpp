#include "fovea/nn/cache.h"

#include "fovea/core/error.h"
#include "fovea/nn/attention.h"
#include "fovea/nn/transformer.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;
using fovea_tests::max_difference;

TEST_CASE("layers take their tensors in the order in which they were appended") {
  Cache cache = {at::zeros({2})};
  append(cache, {at::ones({2}), at::full({2}, 2)});
  CacheCursor cursor(cache);
  CHECK(cursor.next()[0].item<int>() == 0);
  cursor.next() = at::full({2}, 7);  // a recurrent state is replaced
  CHECK_THROWS_WITH(cursor.check_end(), ContainsSubstring("took 2 of the 3 tensors"));
  cursor.next().add_(1);  // keys and values are written
  CHECK_NOTHROW(cursor.check_end());
  CHECK_THROWS_WITH(cursor.next(), ContainsSubstring("more than the 3 tensors"));
  CHECK(cache[1][0].item<int>() == 7);
  CHECK(cache[2][1].item<int>() == 3);
}

TEST_CASE("cross-attention by its cache is cross-attention") {
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 8, .num_heads = 2, .use_bias = true});
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3, 2, 8}), encoded = at::randn({3, 5, 8});
  const auto layout = SequenceLayout::padded({5, 2, 0}, 5);
  const at::Tensor expected =
      attention->forward(x, encoded, encoded, AttentionMask::cross(SequenceLayout::full(x), layout));
  for (const bool packed : {false, true}) {
    Cache cache = packed ? attention->make_cross_cache(layout.pack(encoded), layout.as_packed())
                         : attention->make_cross_cache(encoded, layout);
    for (const at::Tensor& tensor : cache) CHECK(tensor.size(0) == 3);
    for (int again = 0; again < 2; ++again) {
      CacheCursor cursor(cache);
      CHECK(max_difference(attention->cross_step(x, cursor), expected) < 1e-6);
      cursor.check_end();
    }
  }
}

TEST_CASE("the cache of another decoder is refused") {
  const auto decoder = [](int64_t num_blks) {
    TransformerDecoder made(TransformerOptions{
        .vocab_size = 9, .num_blks = num_blks, .block = {.num_hiddens = 8, .num_heads = 2}, .max_len = 6});
    made->eval();
    return made;
  };
  const at::NoGradGuard no_grad;
  const at::Tensor encoded = at::randn({2, 3, 8}), tokens = at::zeros({2}, at::kLong);
  auto small = decoder(1), big = decoder(2);
  Cache cache = small->make_cache(encoded, SequenceLayout::full(encoded), 4);
  CHECK_NOTHROW(small->step(tokens, 0, cache));
  CHECK_THROWS_WITH(big->step(tokens, 1, cache), ContainsSubstring("another model made it"));
  cache = big->make_cache(encoded, SequenceLayout::full(encoded), 4);
  CHECK_THROWS_WITH(small->step(tokens, 0, cache), ContainsSubstring("took 5 of the 10 tensors"));
}

TEST_CASE("recorded weights are named by the path of their attention, at each step too") {
  TransformerDecoder decoder(
      TransformerOptions{.vocab_size = 9, .num_blks = 2, .block = {.num_hiddens = 8, .num_heads = 2}, .max_len = 6});
  decoder->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor encoded = at::randn({2, 3, 8});
  const auto names = [](const AttentionRecorder& recorder) {
    std::vector<std::string> found;
    for (const auto& record : recorder.records()) found.push_back(record.name);
    return found;
  };
  AttentionRecorder nameless;
  const at::Tensor tokens = at::zeros({2, 4}, at::kLong);
  const auto layout = SequenceLayout::full(tokens), encoded_layout = SequenceLayout::full(encoded);
  decoder->forward(tokens, layout, encoded, encoded_layout, &nameless);
  CHECK(names(nameless) == std::vector<std::string>(4));
  assign_paths(*decoder);
  const std::vector<std::string> expected = {"blks.block0.attention1", "blks.block0.attention2",
                                             "blks.block1.attention1", "blks.block1.attention2"};
  AttentionRecorder recorder;
  decoder->forward(tokens, layout, encoded, encoded_layout, &recorder);
  CHECK(names(recorder) == expected);
  Cache cache = decoder->make_cache(encoded, encoded_layout, 4);
  for (int64_t t = 0; t < 2; ++t) {
    AttentionRecorder step;
    decoder->step(tokens.select(1, t), t, cache, &step);
    CHECK(names(step) == expected);
    CHECK(step.records()[0].weights.sizes() == at::IntArrayRef({2, 2, 1, t + 1}));
    for (size_t i = 0; i < 2; ++i) {  // of the forward pass, the row of this token
      const at::Tensor row = recorder.records()[i].weights.narrow(2, t, 1);
      CHECK(max_difference(step.records()[i].weights, i == 0 ? row.narrow(3, 0, t + 1) : row) < 1e-5);
    }
  }
}
