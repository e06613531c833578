#include "fovea/ops/flash_attention.h"

#include <limits>

#include "fovea/nn/attention.h"
#include "fovea/nn/random.h"
#include "fovea/ops/dropout.h"
#include "fovea/train/optimizer.h"
#include "models/transformer.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using at::Tensor;
using fovea_tests::max_difference;
using ops::FlashAttentionArguments;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor key(int64_t step = 0) {
  return at::tensor({int64_t{1}, step, int64_t{3}}, at::kLong);
}

// Which query sees which key, written cell by cell from the contract: bool (batch, 1, queries, keys).
Tensor allowed_by_hand(const FlashAttentionArguments& a, int64_t batch, int64_t queries, int64_t keys) {
  Tensor allowed = at::zeros({batch, 1, queries, keys}, at::kBool);
  auto cell = allowed.accessor<bool, 4>();
  const auto lens = a.valid_lens.defined() ? a.valid_lens.contiguous() : at::full({batch}, keys, at::kLong);
  const int64_t* l = lens.const_data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t last = lens.dim() == 2 ? l[b * queries + i] : l[b], p = i + keys - queries;
      if (a.query_lens.defined() && i >= a.query_lens.const_data_ptr<int64_t>()[b]) continue;
      for (int64_t j = 0; j < keys; ++j) {
        cell[b][0][i][j] = j < last && (!a.causal || j <= p) && (a.window_left < 0 || j >= p - a.window_left) &&
                           (a.window_right < 0 || j <= p + a.window_right);
      }
    }
  }
  return allowed;
}

struct Result {
  Tensor output, lse;
  std::vector<Tensor> gradients;  // of query, key, value and, if there is one, the bias
};

Result differentiate(const std::function<std::pair<Tensor, Tensor>(const std::vector<Tensor>&)>& f,
                     const std::vector<Tensor>& inputs, const Tensor& upstream) {
  std::vector<Tensor> leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const auto [output, lse] = f(leaves);
  Result r{output.detach(), lse, {}};
  r.gradients = torch::autograd::grad({output}, leaves, {upstream.to(output.scalar_type())}, std::nullopt, false, true);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!r.gradients[i].defined()) r.gradients[i] = at::zeros_like(leaves[i]);
  }
  return r;
}

// Attention with all weights in memory, in the dtype of its inputs. Rows without a key give 0.
Result plain(const std::vector<Tensor>& inputs, const FlashAttentionArguments& a, const Tensor& upstream) {
  return differentiate(
      [&](const std::vector<Tensor>& in) -> std::pair<Tensor, Tensor> {
        const double scale = a.scale.value_or(1 / std::sqrt(static_cast<double>(in[0].size(-1))));
        Tensor scores = at::matmul(in[0] * scale, in[1].transpose(-2, -1));
        if (in.size() > 3) scores = scores + in[3];
        Tensor forbidden = allowed_by_hand(a, in[0].size(0), in[0].size(2), in[1].size(2)).logical_not();
        forbidden = forbidden.logical_or(scores.eq(-kInfinity));
        const Tensor weights = at::softmax(scores.masked_fill(forbidden, -1e30), -1).masked_fill(forbidden, 0);
        const Tensor dropped = a.dropout_p > 0 ? ops::dropout(weights, a.rng, a.dropout_p) : weights;
        return {at::matmul(dropped, in[2]), at::logsumexp(scores.detach().masked_fill(forbidden, -kInfinity), -1)};
      },
      inputs, upstream);
}

Result flash(const std::vector<Tensor>& inputs, FlashAttentionArguments a, const Tensor& upstream) {
  return differentiate(
      [&](const std::vector<Tensor>& in) -> std::pair<Tensor, Tensor> {
        if (in.size() > 3) a.bias = in[3];
        const auto [output, lse] = ops::flash_attention(in[0], in[1], in[2], a);
        return {output, lse};
      },
      inputs, upstream);
}

double largest(const Tensor& t) {
  return t.numel() == 0 ? 0 : t.abs().max().item<double>();
}

// The rule all numeric code here is held to: twice the error of the plain path (three times for gradients), and a
// few units in the last place of the largest number.
void check_rule(const Tensor& found, const Tensor& same_dtype, const Tensor& exact, double times) {
  const double eps = found.scalar_type() == at::kFloat ? std::numeric_limits<float>::epsilon()
                                                       : std::numeric_limits<double>::epsilon();
  CHECK(max_difference(found, exact) <= times * max_difference(same_dtype, exact) + 4 * eps * largest(exact));
}

void check_against_reference(const std::vector<Tensor>& inputs, const FlashAttentionArguments& a) {
  auto sizes = inputs[0].sizes().vec();
  sizes.back() = inputs[2].size(-1);
  const Tensor upstream = at::randn(sizes);
  std::vector<Tensor> doubles;
  for (const auto& input : inputs) doubles.push_back(input.to(at::kDouble));
  const Result exact = plain(doubles, a, upstream), same = plain(inputs, a, upstream),
               found = flash(inputs, a, upstream);
  check_rule(found.output, same.output, exact.output, 2);
  const Tensor empty = exact.lse.eq(-kInfinity);
  CHECK(at::equal(found.lse.eq(-kInfinity), empty));
  CHECK(max_difference(found.lse.masked_fill(empty, 0), exact.lse.masked_fill(empty, 0)) <
        4e-6 * (1 + largest(exact.lse.masked_fill(empty, 0))));
  CHECK(found.output.masked_select(empty.unsqueeze(-1)).eq(0).all().item<bool>());
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient " << i);
    check_rule(found.gradients[i], same.gradients[i], exact.gradients[i], 3);
  }
  // The op's own double path keeps it honest from the other side.
  const Result own = flash(doubles, a, upstream);
  CHECK(max_difference(own.output, exact.output) < 1e-12);
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHECK(max_difference(own.gradients[i], exact.gradients[i]) < 1e-10 * (1 + largest(exact.gradients[i])));
  }
}

std::vector<Tensor> random_inputs(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t head_dim,
                                  int64_t value_dim) {
  return {at::randn({batch, heads, queries, head_dim}), at::randn({batch, heads, keys, head_dim}),
          at::randn({batch, heads, keys, value_dim})};
}

struct Size {
  int64_t queries, keys;
};

}  // namespace

TEST_CASE("flash attention equals the reference at any head size and length") {
  for (const int64_t head_dim : {1, 3, 5, 16, 20, 33, 48, 64, 128, 256}) {
    for (const auto& [queries, keys] :
         std::vector<Size>{{1, 1}, {1, 5}, {5, 2}, {9, 9}, {37, 37}, {64, 31}, {65, 64}, {3, 200}, {100, 131}}) {
      for (const bool causal : {false, true}) {
        INFO("head_dim " << head_dim << ", " << queries << " queries, " << keys << " keys, causal " << causal);
        at::manual_seed(head_dim * 1000 + queries);
        FlashAttentionArguments a;
        a.causal = causal;
        check_against_reference(random_inputs(2, 2, queries, keys, head_dim, head_dim), a);
      }
    }
  }
}

TEST_CASE("flash attention equals the reference over several tiles of queries and keys") {
  at::manual_seed(1);
  for (const auto& [queries, keys] : std::vector<Size>{{400, 400}, {193, 777}, {700, 130}}) {
    for (const bool causal : {false, true}) {
      INFO(queries << " queries, " << keys << " keys, causal " << causal);
      FlashAttentionArguments a;
      a.causal = causal;
      check_against_reference(random_inputs(1, 2, queries, keys, 40, 24), a);
    }
  }
}

TEST_CASE("results larger than the caches") {
  at::manual_seed(2);
  FlashAttentionArguments a;
  a.valid_lens = at::randint(0, 38, {70}, at::kLong);
  a.dropout_p = 0.2;
  a.rng = key();
  check_against_reference(random_inputs(70, 8, 37, 37, 128, 128), a);
}

TEST_CASE("C05: all masks together equal a hand-built one") {
  // Dimensions of 16 take the path of short heads where there is no bias.
  for (const auto& [queries, keys, dim] : std::vector<std::array<int64_t, 3>>{
           {7, 7, 8}, {5, 12, 16}, {40, 33, 16}, {17, 64, 48}, {70, 150, 8}, {150, 70, 8}}) {
    for (int bits = 0; bits < 64; ++bits) {
      INFO(queries << " queries, " << keys << " keys, masks " << bits);
      at::manual_seed(bits);
      auto inputs = random_inputs(3, 2, queries, keys, dim, dim == 48 ? 16 : dim);
      FlashAttentionArguments a;
      a.causal = (bits & 1) != 0;
      if (bits & 2) a.valid_lens = at::tensor({keys, int64_t{0}, (keys + 1) / 2}, at::kLong);
      if (bits & 4) a.window_left = 3 + bits % 5;
      if (bits & 8) a.window_right = bits % 3;
      if (bits & 16) {
        a.dropout_p = 0.3;
        a.rng = key(bits);
      }
      if (bits & 32) {
        Tensor bias = at::randn({2, queries, keys});
        bias = bias.masked_fill(at::rand_like(bias).lt(0.2), -kInfinity);
        inputs.push_back(bits % 3 == 0 ? bias : bits % 3 == 1 ? at::randn({keys}) : at::randn({3, 1, queries, keys}));
      }
      if (bits % 4 == 3) a.query_lens = at::tensor({queries / 2, queries, int64_t{1}}, at::kLong);
      if (bits % 7 == 6) a.valid_lens = at::randint(0, keys + 1, {3, queries}, at::kLong);
      check_against_reference(inputs, a);
    }
  }
}

TEST_CASE("gradients of the op agree with finite differences") {
  for (const bool causal : {false, true}) {
    FlashAttentionArguments a;
    a.causal = causal;
    a.valid_lens = at::tensor({4, 2}, at::kLong);
    a.dropout_p = 0.25;
    a.rng = key();
    a.scale = 0.7;
    const auto f = [&](const std::vector<Tensor>& in) {
      a.bias = in[3];
      return std::get<0>(ops::flash_attention(in[0], in[1], in[2], a));
    };
    CHECK(fovea_tests::finite_difference_error(f, {at::randn({2, 2, 3, 5}), at::randn({2, 2, 5, 5}),
                                                   at::randn({2, 2, 5, 2}), at::randn({2, 1, 5})}) < 1e-8);
  }
}

TEST_CASE("heads that share a bias add to one gradient") {
  at::manual_seed(9);
  const auto sizes =
      GENERATE(std::vector<int64_t>{9, 11}, std::vector<int64_t>{3, 9, 11}, std::vector<int64_t>{20, 1, 9, 11},
               std::vector<int64_t>{1, 3, 1, 11}, std::vector<int64_t>{20, 3, 9, 11});
  auto inputs = random_inputs(20, 3, 9, 11, 8, 8);
  inputs.push_back(at::randn(sizes));
  check_against_reference(inputs, {});
}

TEST_CASE("packed sequences give what padded ones give") {
  at::manual_seed(2);
  for (const bool longer : {false, true}) {
    const std::vector<int64_t> lengths =
        longer ? std::vector<int64_t>{250, 3, 0, 65} : std::vector<int64_t>{4, 0, 1, 9};
    const auto padded = nn::SequenceLayout::padded(lengths, longer ? 250 : 9);
    for (const bool causal : {false, true}) {
      INFO("longer " << longer << ", causal " << causal);
      FlashAttentionArguments a;
      a.causal = causal;
      a.window_left = 70;
      a.dropout_p = 0.2;
      a.rng = key();
      a.bias = at::randn({2, padded.steps(), padded.steps()});
      auto b = a;
      a.query_lens = a.valid_lens = padded.lengths();
      b.query_offsets = b.key_offsets = padded.as_packed().offsets();
      b.max_query = b.max_key = padded.steps();
      std::vector<Tensor> in, packed;
      for (int i = 0; i < 3; ++i) {
        in.push_back(at::randn({4, 2, padded.steps(), 12}).requires_grad_());
        packed.push_back(padded.pack(in.back().transpose(1, 2)).detach().requires_grad_());  // (total, heads, 12)
      }
      const auto [x, x_lse] = ops::flash_attention(in[0], in[1], in[2], a);
      const auto [y, y_lse] = ops::flash_attention(packed[0], packed[1], packed[2], b);
      CHECK(max_difference(padded.pack(x.transpose(1, 2)), y) < 1e-6);
      CHECK(max_difference(padded.pack(x_lse.transpose(1, 2)), y_lse) < 1e-5);
      const Tensor upstream = at::randn(y.sizes());
      const auto dx = torch::autograd::grad({x}, in, {padded.pad(upstream).transpose(1, 2)});
      const auto dy = torch::autograd::grad({y}, packed, {upstream});
      for (size_t i = 0; i < 3; ++i) {
        CHECK(max_difference(padded.pack(dx[i].transpose(1, 2)), dy[i]) < 1e-5);
        CHECK(max_difference(dx[i], padded.pad(dy[i]).transpose(1, 2)) < 1e-5);  // 0 in the padding
      }
    }
  }
}

TEST_CASE("packed causal queries are aligned with the end of their own keys") {
  at::manual_seed(3);
  FlashAttentionArguments a;
  a.query_offsets = at::tensor({0, 1, 3}, at::kInt);
  a.key_offsets = at::tensor({0, 5, 9}, at::kInt);
  a.causal = true;
  const Tensor q = at::randn({3, 1, 4}), k = at::randn({9, 1, 4}), v = at::randn({9, 1, 4});
  const Tensor y = std::get<0>(ops::flash_attention(q, k, v, a));
  for (const auto& [row, first, end] : std::vector<std::array<int64_t, 3>>{{0, 0, 5}, {1, 5, 8}, {2, 5, 9}}) {
    const Tensor weights = at::softmax(at::matmul(q[row], k.slice(0, first, end).squeeze(1).t()) / 2, -1);
    CHECK(max_difference(y[row], at::matmul(weights, v.slice(0, first, end).squeeze(1))) < 1e-6);
  }
}

TEST_CASE("the flash and the plain path drop the same weights") {
  // The first goes through tiles, the second is a short head.
  const auto [steps, num_hiddens] = GENERATE(std::pair<int64_t, int64_t>{70, 24}, std::pair<int64_t, int64_t>{39, 48});
  nn::MultiHeadAttentionOptions options{.num_hiddens = num_hiddens, .num_heads = 3, .dropout = 0.4};
  nn::MultiHeadAttention one(options);
  options.path = nn::AttentionPath::kPlain;
  nn::MultiHeadAttention other(options);
  {
    const at::NoGradGuard no_grad;
    auto parameters = other->named_parameters();
    for (const auto& p : one->named_parameters()) parameters[p.key()].copy_(p.value());
  }
  for (const bool packed : {false, true}) {
    for (const bool causal : {false, true}) {
      const auto padded = nn::SequenceLayout::padded({steps, 0, 3}, steps);
      const auto layout = packed ? padded.as_packed() : padded;
      const Tensor x = packed ? padded.pack(at::randn({3, steps, num_hiddens}))
                              : padded.zero_padding(at::randn({3, steps, num_hiddens}));
      const auto run = [&](nn::MultiHeadAttention& attention) {
        const nn::RandomScope scope(4, 5);
        const Tensor y = attention->forward(x, x, x, nn::AttentionMask::self(layout, causal));
        return packed ? y : layout.zero_padding(y);
      };
      CHECK(max_difference(run(one), run(other)) < 1e-5);
    }
  }
}

TEST_CASE("the number of threads does not change a bit") {
  at::manual_seed(4);
  const int threads = at::get_num_threads();
  const bool with_bias = GENERATE(false, true);
  for (const int64_t steps : {37, 600}) {
    auto inputs = random_inputs(2, 3, steps, steps, 32, 32);
    if (with_bias) inputs.push_back(at::randn({steps, steps}));
    const Tensor upstream = at::randn(inputs[0].sizes());
    FlashAttentionArguments a;
    a.causal = true;
    a.dropout_p = 0.1;
    a.rng = key();
    at::set_num_threads(1);
    const Result one = flash(inputs, a, upstream);
    at::set_num_threads(3);
    const Result three = flash(inputs, a, upstream);
    CHECK(at::equal(one.output, three.output));
    for (size_t i = 0; i < inputs.size(); ++i) CHECK(at::equal(one.gradients[i], three.gradients[i]));
  }
  at::set_num_threads(threads);
}

TEST_CASE("C03: the op never reads the padding") {
  at::manual_seed(5);
  const auto [queries, keys, dim] = GENERATE(std::array<int64_t, 3>{90, 100, 20}, std::array<int64_t, 3>{50, 60, 32});
  FlashAttentionArguments a;
  a.valid_lens = at::tensor({int64_t{3}, int64_t{0}, keys}, at::kLong);
  a.query_lens = at::tensor({queries, int64_t{5}, int64_t{0}}, at::kLong);
  const auto inputs = random_inputs(3, 2, queries, keys, dim, dim);
  const Tensor upstream = at::randn({3, 2, queries, dim});
  const Tensor query_padding = (at::arange(queries) >= a.query_lens.unsqueeze(1)).view({3, 1, queries, 1});
  const Tensor key_padding = (at::arange(keys) >= a.valid_lens.unsqueeze(1)).view({3, 1, keys, 1});
  const auto run = [&](double fill_value) {
    return flash({inputs[0].masked_fill(query_padding, fill_value), inputs[1].masked_fill(key_padding, fill_value),
                  inputs[2].masked_fill(key_padding, fill_value)},
                 a, upstream.masked_fill(query_padding, fill_value));
  };
  const Result expected = run(0);
  CHECK(expected.output.masked_select(query_padding).eq(0).all().item<bool>());
  for (const double fill_value : {1e10, std::nan(""), kInfinity}) {
    const Result found = run(fill_value);
    CHECK(at::equal(found.output, expected.output));
    for (size_t i = 0; i < 3; ++i) CHECK(at::equal(found.gradients[i], expected.gradients[i]));
  }
  CHECK(expected.gradients[0].masked_select(query_padding).eq(0).all().item<bool>());
  for (const size_t i : {1, 2}) CHECK(expected.gradients[i].masked_select(key_padding).eq(0).all().item<bool>());
}

TEST_CASE("C01 C02 C08: empty rows, empty sequences, no batch") {
  for (const auto& [batch, queries, keys] :
       std::vector<std::array<int64_t, 3>>{{0, 3, 3}, {2, 0, 3}, {2, 3, 0}, {1, 1, 1}, {2, 0, 0}}) {
    INFO(batch << " " << queries << " " << keys);
    FlashAttentionArguments a;
    a.causal = true;
    check_against_reference(random_inputs(batch, 2, queries, keys, 5, 4), a);
    check_against_reference(random_inputs(batch, 2, queries, keys, 16, 32), a);
  }
  FlashAttentionArguments a;
  a.query_offsets = a.key_offsets = at::zeros({1}, at::kInt);
  CHECK(std::get<0>(ops::flash_attention(at::ones({0, 2, 3}), at::ones({0, 2, 3}), at::ones({0, 2, 3}), a)).numel() ==
        0);
  a.query_offsets = at::tensor({0, 1, 1, 2}, at::kInt);
  a.key_offsets = at::tensor({0, 0, 1, 2}, at::kInt);
  const auto [y, lse] = ops::flash_attention(at::ones({2, 2, 3}), at::ones({2, 2, 3}), at::full({2, 2, 3}, 7.0f), a);
  CHECK(y[0].eq(0).all().item<bool>());
  CHECK(lse[0].eq(-kInfinity).all().item<bool>());
  CHECK(y[1].eq(7).all().item<bool>());
}

TEST_CASE("C06: large scores") {
  at::manual_seed(6);
  // A short head, one tile, several tiles.
  const int64_t steps = GENERATE(40, 70, 400);
  auto inputs = random_inputs(2, 2, steps, steps, 64, 64);
  inputs[0] *= 6000;  // scores up to 5e4
  FlashAttentionArguments a;
  a.causal = true;
  check_against_reference(inputs, a);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const Tensor y = std::get<0>(ops::flash_attention(inputs[0].to(type), inputs[1].to(type), inputs[2].to(type), a));
    CHECK(at::isfinite(y).all().item<bool>());
  }
}

TEST_CASE("C07: views and expanded gradients give the bits of contiguous tensors") {
  at::manual_seed(7);
  for (const int64_t steps : {9, 100}) {
    const Tensor wide = at::randn({2, steps, 3, 4, 20}), rows = at::randn({2, 4, 20, steps});
    const std::vector<Tensor> views = {wide.select(2, 0).transpose(1, 2), rows.transpose(2, 3),
                                       wide.select(2, 2).transpose(1, 2).expand({2, 4, steps, 20})};
    std::vector<Tensor> contiguous;
    for (const auto& v : views) contiguous.push_back(v.contiguous());
    const Tensor scalar = at::ones({}).expand({2, 4, steps, 20});
    const Tensor turned = at::randn({20, steps, 4, 2}).permute({3, 2, 1, 0});
    for (const auto& upstream : {scalar, turned}) {
      const Result a = flash(views, {}, upstream), b = flash(contiguous, {}, upstream.contiguous());
      CHECK(at::equal(a.output, b.output));
      for (size_t i = 0; i < 3; ++i) CHECK(at::equal(a.gradients[i], b.gradients[i]));
    }
  }
}

TEST_CASE("C04: one query with a cache sees all of it, step by step as at once") {
  at::manual_seed(8);
  const auto inputs = random_inputs(2, 2, 70, 70, 16, 16);
  FlashAttentionArguments a;
  a.causal = true;
  const Tensor whole = std::get<0>(ops::flash_attention(inputs[0], inputs[1], inputs[2], a));
  for (const int64_t t : {0, 1, 30, 69}) {
    const Tensor step = std::get<0>(ops::flash_attention(inputs[0].narrow(2, t, 1), inputs[1].narrow(2, 0, t + 1),
                                                         inputs[2].narrow(2, 0, t + 1), a));
    CHECK(max_difference(step, whole.narrow(2, t, 1)) < 1e-6);
  }
}

TEST_CASE("flash attention has one derivative, and none of lse") {
  auto inputs = random_inputs(1, 1, 3, 3, 4, 4);
  for (auto& input : inputs) input.requires_grad_();
  const auto [y, lse] = ops::flash_attention(inputs[0], inputs[1], inputs[2]);
  CHECK_FALSE(lse.requires_grad());
  const Tensor first = torch::autograd::grad({y.sum()}, {inputs[0]}, {}, std::nullopt, true)[0];
  CHECK_THROWS_WITH(first.sum().backward(), ContainsSubstring("derivative for fovea::flash_attention_backward"));
  const at::NoGradGuard no_grad;
  CHECK_FALSE(std::get<0>(ops::flash_attention(inputs[0], inputs[1], inputs[2])).requires_grad());
}

TEST_CASE("C09: flash attention refuses what it cannot take, naming it") {
  const Tensor x = at::ones({2, 3, 4, 5});
  const auto refuses = [&](FlashAttentionArguments a, const std::string& text) {
    CHECK_THROWS_WITH(ops::flash_attention(x, x, x, a), ContainsSubstring(text));
  };
  const Tensor wide = at::ones({1, 1, 2, 257});
  CHECK_THROWS_WITH(ops::flash_attention(wide, wide, wide), ContainsSubstring("[1, 256], got 257"));
  CHECK_THROWS_WITH(ops::flash_attention(x, at::ones({2, 3, 4, 6}), x), ContainsSubstring("5 and 6"));
  CHECK_THROWS_WITH(ops::flash_attention(x, x, x.to(at::kDouble)), ContainsSubstring("Double"));
  CHECK_THROWS_WITH(ops::flash_attention(x, at::ones({2, 1, 4, 5}), x), ContainsSubstring("3, 1 and 3"));
  CHECK_THROWS_WITH(ops::flash_attention(x.to(at::kInt), x, x), ContainsSubstring("Int"));
  refuses({.dropout_p = 1.5, .rng = key()}, "got 1.5");
  refuses({.dropout_p = 0.5}, "needs an rng");
  refuses({.window_left = -2}, "got -2");
  refuses({.bias = at::ones({4, 5})}, "[4, 5]");
  refuses({.valid_lens = at::ones({3}, at::kLong)}, "[3]");
  refuses({.query_lens = at::ones({2, 4}, at::kLong)}, "[2, 4]");
  refuses({.query_offsets = at::tensor({0, 2}, at::kInt)}, "packed tensors");
  const Tensor y = at::ones({4, 3, 5});
  const auto packed = [&](std::vector<int32_t> q, std::vector<int32_t> k, int64_t longest, const std::string& text) {
    FlashAttentionArguments a;
    a.query_offsets = at::tensor(q, at::kInt);
    a.key_offsets = at::tensor(k, at::kInt);
    a.max_query = longest;
    CHECK_THROWS_WITH(ops::flash_attention(y, y, y, a), ContainsSubstring(text));
  };
  packed({0, 3}, {0, 4}, 0, "0 to 4, got 0 to 3");
  packed({0, 3, 2, 4}, {0, 1, 2, 4}, 0, "got 3 then 2");
  packed({0, 4}, {0, 2, 4}, 0, "2 and 3");
  packed({0, 4}, {0, 4}, 3, "a sequence of 4");
}

TEST_CASE("ten training steps of the Transformer agree on both paths") {
  for (const auto layout : {nn::LayoutKind::kPacked, nn::LayoutKind::kPadded}) {
    std::vector<std::vector<double>> losses;
    for (const auto attention : {nn::AttentionPath::kFlash, nn::AttentionPath::kPlain}) {
      models::TransformerConfig config;
      config.net.block = {
          .num_hiddens = 24, .ffn_num_hiddens = 32, .num_heads = 3, .dropout = 0.2, .attention = attention};
      config.net.max_len = 16;
      config.layout = layout;
      torch::manual_seed(1);
      translation::TranslationSpec spec;
      spec.source_vocab_size = 30;
      spec.target_vocab_size = 31;
      spec.num_steps = 9;
      models::Transformer model(config, spec);
      model.network().train();
      data::Batch batch;
      batch.tensors = {{"source", at::randint(0, 30, {6, 9}, at::kLong)},
                       {"target", at::randint(0, 31, {6, 7}, at::kLong)},
                       {"label", at::randint(0, 31, {6, 7}, at::kLong)}};
      batch.layouts.emplace("source", nn::SequenceLayout::padded({9, 1, 4, 5, 2, 7}, 9));
      batch.layouts.emplace("target", nn::SequenceLayout::padded({3, 7, 1, 5, 6, 2}, 7));
      torch::optim::Adam optimizer(model.network().parameters(), torch::optim::AdamOptions(1e-2));
      losses.emplace_back();
      for (uint64_t step = 0; step < 10; ++step) {
        const nn::RandomScope scope(7, step);
        const auto terms = model.training_step(batch, 0);
        const Tensor loss = terms[0].sum / static_cast<double>(terms[0].count);
        losses.back().push_back(loss.item<double>());
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
      }
    }
    CHECK(losses[0].back() < losses[0].front());
    for (size_t step = 0; step < 10; ++step) CHECK(losses[0][step] == Approx(losses[1][step]).epsilon(1e-4));
  }
}

TEST_CASE("no keys at all: every query is empty") {
  const at::Tensor q = at::randn({2, 3, 5, 20}).requires_grad_();
  const at::Tensor k = at::zeros({2, 3, 0, 20}).requires_grad_(), v = at::zeros({2, 3, 0, 20}).requires_grad_();
  const auto [output, lse] = fovea::ops::flash_attention(q, k, v);
  CHECK(output.eq(0).all().item<bool>());
  CHECK(at::isneginf(lse).all().item<bool>());
  output.sum().backward();
  CHECK(q.grad().eq(0).all().item<bool>());
  CHECK(k.grad().sizes() == k.sizes());
}
