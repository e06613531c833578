#include "fovea/nn/attention_mask.h"

#include "fovea/core/error.h"
#include "tests/nn/restrictions.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;

TEST_CASE("allowed() is every restriction, cell by cell, in both layouts") {
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{5, 5}, {3, 7}, {7, 4}, {1, 6}, {2, 1}}) {
    for (int bits = 0; bits < Restrictions::kAll; ++bits) {
      const Restrictions r(bits, queries, keys, 2);
      for (const bool packed : {false, true}) {
        INFO(queries << " x " << keys << ", restrictions " << bits << ", packed " << packed);
        const AttentionMask mask = r.mask(packed);
        const at::Tensor& allowed = mask.allowed();
        const at::Tensor cells = allowed.defined() ? allowed.expand({4, 2, queries, keys}).contiguous()
                                                   : at::ones({4, 2, queries, keys}, at::kBool);
        const bool* cell = cells.const_data_ptr<bool>();
        int wrong = 0;
        for (int64_t b = 0; b < 4; ++b) {
          for (int64_t h = 0; h < 2; ++h) {
            for (int64_t i = 0; i < queries; ++i) {
              for (int64_t j = 0; j < keys; ++j) wrong += *cell++ != r.allowed(b, h, i, j) ? 1 : 0;
            }
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("restrictions of a kind intersect and biases add up") {
  const auto layout = SequenceLayout::full(2, 6);
  const AttentionMask mask = AttentionMask::self(layout);
  const auto windowed = [&](int64_t left, int64_t right) { return mask.with_window(left, right); };
  CHECK(at::equal(windowed(3, -1).with_window(1, 2).allowed(), windowed(1, 2).allowed()));
  CHECK(at::equal(windowed(-1, 2).with_window(4, 5).allowed(), windowed(4, 2).allowed()));
  CHECK(at::equal(mask.with_window(-1, 0).allowed(), AttentionMask::self(layout, true).allowed()));
  const at::Tensor a = at::rand({2, 6, 6}) < 0.5, b = at::rand({1, 6, 6}) < 0.5;
  CHECK(at::equal(mask.with_edges(a).with_edges(b).allowed(), a.logical_and(b).unsqueeze(1)));
  const at::Tensor bias = at::randn({6, 6}), other = at::randn({2, 3, 1, 6});
  CHECK(at::equal(mask.with_bias(bias).with_bias(other).bias(), bias + other));
  // A mask that was used before is not changed, and what is derived from it knows the new restriction.
  const AttentionMask causal = AttentionMask::self(layout, true);
  const at::Tensor before = causal.allowed();
  CHECK_FALSE(at::equal(causal.with_window(0, 0).allowed(), before));
  CHECK(causal.allowed().is_same(before));
  CHECK_FALSE(mask.allowed().defined());
  CHECK_FALSE(mask.bias().defined());
}

TEST_CASE("only what the op can align goes to it packed") {
  const auto padded = SequenceLayout::padded({3, 5}, 5), other = SequenceLayout::padded({4, 5}, 5);
  const auto packed = padded.as_packed();
  CHECK(AttentionMask::self(packed, true).with_window(2, 1).fits_packed());
  CHECK(AttentionMask::cross(packed, other.as_packed()).fits_packed());
  CHECK_FALSE(AttentionMask(packed, other.as_packed(), true).fits_packed());
  CHECK_FALSE(AttentionMask(packed, other.as_packed()).with_window(2, -1).fits_packed());
  CHECK_FALSE(AttentionMask::self(padded).fits_packed());
}

TEST_CASE("the first query alone keeps its lengths, bias and edges") {
  const at::Tensor lens = at::tensor({2, 1, 4, 3, 0, 2}, at::kLong).view({2, 3});
  const at::Tensor bias = at::randn({2, 1, 3, 4}), edges = at::rand({2, 3, 4}) < 0.5;
  const AttentionMask mask = AttentionMask::from_valid_lens(lens, 2, 3, 4).with_bias(bias).with_edges(edges);
  const AttentionMask first = mask.first_queries(1);
  CHECK(first.queries().steps() == 1);
  CHECK(at::equal(first.allowed(), mask.allowed().narrow(2, 0, 1)));
  CHECK(at::equal(first.bias(), bias.narrow(2, 0, 1)));
  for (const AttentionMask& placed : {AttentionMask::self(SequenceLayout::full(2, 3), true), mask.with_window(1, -1),
                                      mask.with_window(-1, 0), mask.with_rotary()}) {
    CHECK_THROWS_WITH(placed.first_queries(1), ContainsSubstring("causal mask, a window or rotary"));
  }
}

TEST_CASE("edges come as a list of packed tokens too") {
  const auto queries = SequenceLayout::padded({2, 0, 3}, 4), keys = SequenceLayout::padded({1, 2, 3}, 3);
  // Queries: 0 1 | | 2 3 4, keys: 0 | 1 2 | 3 4 5.
  const at::Tensor list = at::tensor({0, 1, 2, 4, 4, 0, 0, 5, 3, 3}, at::kLong).view({2, 5});
  for (const bool packed : {false, true}) {
    const at::Tensor edges =
        packed ? edges_of(list, queries.as_packed(), keys.as_packed()) : edges_of(list, queries, keys);
    at::Tensor expected = at::zeros({3, 4, 3}, at::kBool);
    expected[0][0][0] = expected[0][1][0] = expected[2][0][2] = expected[2][2][0] = true;
    CHECK(at::equal(edges, expected));
  }
  CHECK(edges_of(at::zeros({2, 0}, at::kLong), queries, keys).sizes() == at::IntArrayRef({3, 4, 3}));
  const auto refused = [&](const std::vector<int64_t>& edge, const std::string& text) {
    CHECK_THROWS_WITH(edges_of(at::tensor(edge, at::kLong).view({2, 1}), queries, keys), ContainsSubstring(text));
  };
  refused({5, 0}, "query 5 does not exist, the batch has 5 valid tokens");
  refused({0, -1}, "key -1 does not exist, the batch has 6 valid tokens");
  refused({2, 1}, "query 2 is of sequence 2, key 1 of sequence 1");
  CHECK_THROWS_WITH(edges_of(at::zeros({3, 2}, at::kLong), queries, keys), ContainsSubstring("int64 (2, edges)"));
  CHECK_THROWS_WITH(edges_of(at::zeros({2, 2}), queries, keys), ContainsSubstring("got Float [2, 2]"));
}

TEST_CASE("windows, biases and edges that do not fit are refused, naming both shapes") {
  const AttentionMask mask = AttentionMask::cross(SequenceLayout::full(2, 3), SequenceLayout::full(2, 4));
  CHECK_THROWS_WITH(mask.with_window(-2, 0), ContainsSubstring("-2 and 0"));
  CHECK_THROWS_WITH(mask.with_bias(at::zeros({2, 1, 4, 4})),
                    ContainsSubstring("(2, heads, 3, 4), got Float [2, 1, 4, 4]"));
  CHECK_THROWS_WITH(mask.with_bias(at::zeros({3, 4}, at::kLong)), ContainsSubstring("got Long [3, 4]"));
  CHECK_THROWS_WITH(mask.with_bias(at::zeros({1, 2, 1, 3, 4})), ContainsSubstring("(2, heads, 3, 4)"));
  CHECK_THROWS_WITH(mask.with_edges(at::zeros({2, 3, 4})), ContainsSubstring("bool (2, 3, 4), got Float [2, 3, 4]"));
  CHECK_THROWS_WITH(mask.with_edges(at::zeros({3, 4}, at::kBool)), ContainsSubstring("got Bool [3, 4]"));
  CHECK_NOTHROW(mask.with_bias(at::zeros({7, 1, 4})));
  CHECK_NOTHROW(mask.with_edges(at::zeros({1, 3, 4}, at::kBool)));
}
