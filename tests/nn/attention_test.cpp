#include "fovea/nn/attention.h"

#include "fovea/core/error.h"
#include "fovea/nn/random.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;
using fovea_tests::Golden;
using fovea_tests::max_difference;

namespace {

AttentionMask mask_of(const at::Tensor& lens, const at::Tensor& queries, const at::Tensor& keys) {
  return AttentionMask::from_valid_lens(lens, queries.size(0), queries.size(1), keys.size(1));
}

// The slow way in double: every query against every key, with a hand-built mask (batch, queries, keys).
at::Tensor reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& allowed) {
  at::Tensor out = at::zeros({q.size(0), q.size(1), v.size(2)}, at::kDouble);
  for (int64_t b = 0; b < q.size(0); ++b) {
    for (int64_t i = 0; i < q.size(1); ++i) {
      double total = 0;
      for (int64_t j = 0; j < k.size(1); ++j) {
        if (!allowed[b][i][j].item<bool>()) continue;
        const double weight = std::exp((q[b][i] * k[b][j]).sum().item<double>() / std::sqrt(q.size(2)));
        out[b][i] += weight * v[b][j];
        total += weight;
      }
      if (total > 0) out[b][i] /= total;
    }
  }
  return out;
}

// (batch, queries, keys), from lengths and bottom-right causal alignment, cell by cell.
at::Tensor allowed_by_hand(const std::vector<int64_t>& key_lengths, int64_t queries, int64_t keys, bool causal) {
  at::Tensor allowed = at::zeros({static_cast<int64_t>(key_lengths.size()), queries, keys}, at::kBool);
  for (size_t b = 0; b < key_lengths.size(); ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        allowed[static_cast<int64_t>(b)][i][j] = j < key_lengths[b] && (!causal || j <= i + keys - queries);
      }
    }
  }
  return allowed;
}

template <typename Attention>
void check_golden(const std::string& file, const std::function<Attention(const fovea_tests::GoldenCase&)>& make) {
  const Golden golden(file);
  REQUIRE(golden.cases().size() >= 3);
  for (const auto& name : golden.cases()) {
    INFO(file << " " << name);
    const auto c = golden.at(name);
    Attention attention = make(c);
    c.load_parameters(*attention);
    std::map<std::string, at::Tensor> in;
    for (const char* input : {"queries", "keys", "values"}) in[input] = c.input(input).requires_grad_();
    const auto mask = mask_of(c.optional_input("valid_lens"), in["queries"], in["keys"]);
    AttentionRecorder recorder;
    const at::Tensor y = attention->forward(in["queries"], in["keys"], in["values"], mask, &recorder);
    CHECK(max_difference(y, c.output("output")) < 1e-5);
    REQUIRE(recorder.records().size() == 1);
    const at::Tensor& weights = recorder.records()[0].weights;
    const at::Tensor& expected = c.output("attention_weights");
    CHECK(max_difference(weights.view(expected.sizes()), expected) < 1e-5);
    (y * c.input("upstream")).sum().backward();
    CHECK(c.gradient_difference(*attention) < 1e-4);
    for (const auto& [input, tensor] : in) CHECK(max_difference(tensor.grad(), c.get("grad_input." + input)) < 1e-4);
  }
}

}  // namespace

TEST_CASE("dot-product attention equals d2l's") {
  check_golden<DotProductAttention>("dot_product_attention", [](const auto&) { return DotProductAttention(0.0); });
}

TEST_CASE("additive attention equals d2l's") {
  check_golden<AdditiveAttention>("additive_attention", [](const auto& c) {
    return AdditiveAttention(c.integer("query_size"), c.integer("key_size"), c.integer("num_hiddens"), 0.0);
  });
}

TEST_CASE("multi-head attention equals d2l's") {
  check_golden<MultiHeadAttention>("multi_head_attention", [](const auto& c) {
    return MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = c.integer("num_hiddens"),
                                                        .num_heads = c.integer("num_heads"),
                                                        .use_bias = c.boolean("use_bias")});
  });
}

TEST_CASE("C04 C05: causal masks are aligned bottom right and intersect with lengths") {
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{1, 5}, {2, 5}, {5, 2}, {5, 5}, {1, 1}}) {
    for (const bool causal : {false, true}) {
      for (const bool ragged : {false, true}) {
        INFO(queries << " queries, " << keys << " keys, causal " << causal << ", ragged " << ragged);
        const std::vector<int64_t> lengths =
            ragged ? std::vector<int64_t>{keys, (keys + 1) / 2, 0} : std::vector<int64_t>(3, keys);
        const at::Tensor q = at::randn({3, queries, 4}, at::kDouble), k = at::randn({3, keys, 4}, at::kDouble),
                         v = at::randn({3, keys, 6}, at::kDouble);
        const AttentionMask mask(SequenceLayout::full(3, queries), SequenceLayout::padded(lengths, keys), causal);
        const at::Tensor y = DotProductAttention(0.0)->forward(q, k, v, mask);
        CHECK(max_difference(y, reference(q, k, v, allowed_by_hand(lengths, queries, keys, causal))) < 1e-12);
      }
    }
  }
}

TEST_CASE("C03: what the padding holds changes nothing, bit for bit") {
  const std::vector<int64_t> lengths = {3, 0, 5};
  const auto layout = SequenceLayout::padded(lengths, 5);
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 12, .num_heads = 3, .use_bias = true});
  AdditiveAttention additive(12, 12, 7, 0.0);
  const at::Tensor base = at::randn({3, 5, 12});
  const at::Tensor upstream = layout.zero_padding(at::randn({3, 5, 12}));
  const at::Tensor padding = layout.valid().logical_not().unsqueeze(-1);

  const auto run = [&](auto attend, torch::nn::Module& module, double fill) {
    module.zero_grad();
    const at::Tensor x = base.masked_fill(padding, fill).requires_grad_();
    const at::Tensor y = attend(x);
    y.backward(upstream);
    std::vector<at::Tensor> results = {layout.zero_padding(y.detach()), x.grad().clone()};
    for (const auto& p : module.parameters()) results.push_back(p.grad().clone());
    return results;
  };
  const auto check = [&](auto attend, torch::nn::Module& module) {
    const auto expected = run(attend, module, 0.0);
    for (const double fill : {1e10, std::nan(""), HUGE_VAL}) {
      const auto found = run(attend, module, fill);
      for (size_t i = 0; i < expected.size(); ++i) {
        INFO("fill " << fill << ", result " << i);
        CHECK(at::equal(found[i], expected[i]));
      }
      CHECK(found[1].masked_select(padding).eq(0).all().template item<bool>());
    }
  };
  for (const bool causal : {false, true}) {
    check([&](const at::Tensor& x) { return attention->forward(x, x, x, AttentionMask::self(layout, causal)); },
          *attention);
    check([&](const at::Tensor& x) { return additive->forward(x, x, x, AttentionMask::self(layout, causal)); },
          *additive);
  }
}

TEST_CASE("C03: a key that no query may see counts as padding, with 2-D lengths and across sequences too") {
  const at::Tensor lens = at::tensor({2, 1, 0, 3, 3, 0}, at::kLong).view({2, 3});
  const at::Tensor q = at::randn({2, 3, 8}), keys = at::randn({2, 4, 8}), values = at::randn({2, 4, 8});
  const at::Tensor unseen = at::arange(4) >= at::tensor({2, 3}, at::kLong).unsqueeze(1);  // (batch, keys)
  DotProductAttention dot(0.0);
  AdditiveAttention additive(8, 8, 5, 0.0);
  MultiHeadAttention multi(MultiHeadAttentionOptions{.num_hiddens = 8, .num_heads = 2});
  const auto run = [&](auto& attention, double fill) {
    const at::Tensor k = keys.masked_fill(unseen.unsqueeze(-1), fill).requires_grad_();
    const at::Tensor v = values.masked_fill(unseen.unsqueeze(-1), fill).requires_grad_();
    const at::Tensor y = attention->forward(q, k, v, mask_of(lens, q, k));
    y.sum().backward();
    for (const at::Tensor& t : {k, v}) {
      CHECK(t.grad().masked_select(unseen.unsqueeze(-1)).eq(0).all().template item<bool>());
    }
    return std::vector<at::Tensor>{y.detach(), k.grad(), v.grad()};
  };
  const auto check = [&](auto& attention) {
    const auto expected = run(attention, 0.0);
    for (const double fill : {1e10, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      const auto found = run(attention, fill);
      for (size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(found[i], expected[i]));
    }
  };
  check(dot);
  check(additive);
  check(multi);
}

TEST_CASE("C01 C02: an empty row is 0 in every attention, and its neighbours do not notice") {
  const at::Tensor x = at::randn({2, 4, 12});
  const auto both = AttentionMask(SequenceLayout::full(2, 4), SequenceLayout::padded({0, 3}, 4));
  const auto one = AttentionMask(SequenceLayout::full(1, 4), SequenceLayout::padded({3}, 4));
  const auto check = [&](auto&& attend, torch::nn::Module& module) {
    module.zero_grad();
    const at::Tensor y = attend(x, both);
    CHECK(y[0].eq(0).all().template item<bool>());
    CHECK(at::equal(y[1], attend(x.narrow(0, 1, 1), one)[0]));
    y[1].sum().backward();
    std::vector<at::Tensor> with;
    for (const auto& p : module.parameters()) with.push_back(p.grad().clone());
    module.zero_grad();
    attend(x.narrow(0, 1, 1), one).sum().backward();
    size_t i = 0;
    for (const auto& p : module.parameters()) CHECK(max_difference(with[i++], p.grad()) < 1e-5);
  };
  MultiHeadAttention multi(MultiHeadAttentionOptions{.num_hiddens = 12, .num_heads = 4});
  check([&](const at::Tensor& t, const AttentionMask& m) { return multi->forward(t, t, t, m); }, *multi);
  AdditiveAttention additive(12, 12, 5, 0.0);
  check([&](const at::Tensor& t, const AttentionMask& m) { return additive->forward(t, t, t, m); }, *additive);
}

TEST_CASE("C07: strides and expanded gradients make no difference") {
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 12, .num_heads = 3});
  const at::Tensor wide = at::randn({5, 2, 24});
  const at::Tensor strided = wide.transpose(0, 1).slice(2, 0, 24, 2);  // (2, 5, 12)
  const auto mask = AttentionMask::self(SequenceLayout::padded({5, 2}, 5), true);
  const at::Tensor a = strided.detach().requires_grad_(), b = strided.contiguous().detach().requires_grad_();
  const at::Tensor ya = attention->forward(a, a, a, mask), yb = attention->forward(b, b, b, mask);
  CHECK(at::allclose(ya, yb));
  ya.backward(at::ones({}).expand({2, 5, 12}));
  yb.backward(at::ones({2, 5, 12}));
  CHECK(at::allclose(a.grad(), b.grad(), 1e-5, 1e-6));
}

TEST_CASE("C08: lengths 0 and 1, single steps, no batch") {
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 8, .num_heads = 2});
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{0, 1, 0, 1}, {1}, {}}) {
    const auto batch = static_cast<int64_t>(lengths.size());
    const at::Tensor x = at::randn({batch, 1, 8}).requires_grad_();
    const auto layout = SequenceLayout::padded(lengths, 1);
    const at::Tensor y = attention->forward(x, x, x, AttentionMask::self(layout, true));
    CHECK(y.sizes() == x.sizes());
    y.sum().backward();
    CHECK(at::isfinite(x.grad()).all().item<bool>());
  }
}

TEST_CASE("packed and padded attention agree, dropout included") {
  MultiHeadAttention attention(
      MultiHeadAttentionOptions{.num_hiddens = 12, .num_heads = 3, .dropout = 0.3, .use_bias = true});
  const auto padded = SequenceLayout::padded({4, 0, 2, 5}, 5);
  const auto keys = SequenceLayout::padded({1, 3, 0, 2}, 3);
  const at::Tensor x = at::randn({4, 5, 12}), y = at::randn({4, 3, 12});
  for (const bool causal : {false, true}) {
    const RandomScope scope(1, 2);
    const at::Tensor a = attention->forward(x, y, y, AttentionMask(padded, keys, causal));
    const at::Tensor b = attention->forward(padded.pack(x), keys.pack(y), keys.pack(y),
                                            AttentionMask(padded.as_packed(), keys.as_packed(), causal));
    CHECK(max_difference(padded.pack(a), b) < 1e-6);
  }
}

TEST_CASE("gradients agree with finite differences") {
  const auto layout = SequenceLayout::padded({3, 1}, 3);
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 6, .num_heads = 2, .use_bias = true});
  attention->to(at::kDouble);
  CHECK(fovea_tests::finite_difference_error(
            [&](const std::vector<at::Tensor>& in) {
              return layout.zero_padding(attention->forward(in[0], in[0], in[0], AttentionMask::self(layout, true)));
            },
            {at::randn({2, 3, 6})}) < 1e-8);
  AdditiveAttention additive(4, 5, 3, 0.0);
  additive->to(at::kDouble);
  CHECK(fovea_tests::finite_difference_error(
            [&](const std::vector<at::Tensor>& in) {
              return additive->forward(in[0], in[1], in[2], mask_of(at::tensor({2, 0}, at::kLong), in[0], in[1]));
            },
            {at::randn({2, 3, 4}), at::randn({2, 3, 5}), at::randn({2, 3, 2})}) < 1e-8);
}

TEST_CASE("C09: heads that do not divide the width are refused, naming both") {
  const auto make = [](int64_t hiddens, int64_t heads) {
    return MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = hiddens, .num_heads = heads});
  };
  CHECK_THROWS_WITH(make(30, 4), ContainsSubstring("30 and 4"));
  CHECK_THROWS_WITH(make(31, 0), ContainsSubstring("31 and 0"));
  CHECK_NOTHROW(make(33, 3));
}
