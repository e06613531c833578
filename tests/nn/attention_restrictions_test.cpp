// Multi-head attention under every mix of restrictions: padded and packed, flash and plain, against loops.
#include "fovea/core/error.h"
#include "fovea/export/script_module.h"
#include "fovea/nn/attention.h"
#include "fovea/nn/random.h"
#include "tests/nn/restrictions.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;
using fovea_tests::max_difference;

namespace {

constexpr int64_t kHeads = 2, kHiddens = 12;

MultiHeadAttention make_attention(AttentionPath path, at::ScalarType type, double dropout = 0) {
  torch::manual_seed(11);  // the same weights each time
  MultiHeadAttention attention(
      MultiHeadAttentionOptions{.num_hiddens = kHiddens, .num_heads = kHeads, .dropout = dropout, .path = path});
  attention->to(type);
  return attention;
}

// Query by query and key by key, in double. Returns (batch, queries, kHiddens).
at::Tensor attend_slowly(MultiHeadAttention& attention, const Restrictions& r, const at::Tensor& x,
                         const at::Tensor& y) {
  const at::NoGradGuard no_grad;
  const auto weight = attention->named_parameters();
  const auto project = [&](const at::Tensor& t, const char* name) {
    return at::linear(t.to(at::kDouble), weight[std::string(name) + ".weight"].to(at::kDouble))
        .unflatten(-1, {kHeads, -1});
  };
  const at::Tensor q = project(x, "W_q"), k = project(y, "W_k"), v = project(y, "W_v");  // (batch, steps, heads, dim)
  at::Tensor out = at::zeros_like(q);
  for (int64_t b = 0; b < q.size(0); ++b) {
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < r.queries; ++i) {
        double total = 0;
        for (int64_t j = 0; j < r.keys; ++j) {
          if (!r.allowed(b, h, i, j)) continue;
          double score = (q[b][i][h] * k[b][j][h]).sum().item<double>() / std::sqrt(kHiddens / kHeads);
          if (r.has(Restrictions::kBias)) score += r.bias[b][h][i][j].item<double>();
          out[b][i][h] += std::exp(score) * v[b][j][h];
          total += std::exp(score);
        }
        if (total > 0) out[b][i][h] /= total;
      }
    }
  }
  return at::linear(out.flatten(2), weight["W_o.weight"].to(at::kDouble));
}

struct Outcome {
  at::Tensor output;  // padded, zeros where there is no query
  std::vector<at::Tensor> gradients;
};

// x and y padded. The gradients are those of x, y, the bias and the parameters.
Outcome attend(MultiHeadAttention& attention, const Restrictions& r, const at::Tensor& x, const at::Tensor& y,
               const at::Tensor& bias, const at::Tensor& upstream, bool packed) {
  std::vector<at::Tensor> inputs = {x.detach().clone(), y.detach().clone(), bias.detach().clone()};
  for (auto& input : inputs) input.requires_grad_();
  for (const auto& p : attention->parameters()) inputs.push_back(p);
  const auto queries = r.query_layout(), keys = r.key_layout();
  const AttentionMask mask = r.mask(packed, inputs[2]);
  at::Tensor out;
  if (packed) {
    const at::Tensor k = keys.pack(inputs[1]);
    out = queries.pad(attention->forward(queries.pack(inputs[0]), k, k, mask));
  } else {
    out = queries.zero_padding(attention->forward(inputs[0], inputs[1], inputs[1], mask));
  }
  auto gradients = torch::autograd::grad({out}, inputs, {upstream.to(out.scalar_type())}, /*retain_graph=*/false,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(inputs[i]);
  }
  return {out.detach(), gradients};
}

}  // namespace

TEST_CASE("every mix of restrictions: padded and packed, flash and plain are one, and equal to loops") {
  at::manual_seed(1);
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{5, 5}, {3, 7}, {7, 4}, {1, 6}}) {
    for (int bits = 0; bits < Restrictions::kAll; ++bits) {
      const Restrictions r(bits, queries, keys, kHeads);
      const at::Tensor x = at::randn({4, queries, kHiddens}), y = at::randn({4, keys, kHiddens});
      const at::Tensor upstream = at::randn({4, queries, kHiddens});
      for (const auto type : {at::kFloat, at::kDouble}) {
        const double tolerance = type == at::kFloat ? 2e-5 : 1e-12;
        std::vector<Outcome> outcomes;
        at::Tensor expected;
        for (const auto path : {AttentionPath::kPlain, AttentionPath::kFlash}) {
          auto attention = make_attention(path, type);
          if (!expected.defined()) expected = r.query_layout().zero_padding(attend_slowly(attention, r, x, y));
          for (const bool packed : {false, true}) {
            outcomes.push_back(attend(attention, r, x.to(type), y.to(type), r.bias.to(type), upstream, packed));
          }
        }
        for (size_t i = 0; i < outcomes.size(); ++i) {
          INFO(queries << " x " << keys << ", restrictions " << bits << ", " << type << ", way " << i);
          CHECK(max_difference(outcomes[i].output, expected) < tolerance);
          for (size_t g = 0; g < outcomes[i].gradients.size(); ++g) {
            INFO("gradient " << g);
            CHECK(max_difference(outcomes[i].gradients[g], outcomes[0].gradients[g]) < 5 * tolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("long and odd sequences under all restrictions: tiles of the op agree with the plain path") {
  at::manual_seed(2);
  const Restrictions r(Restrictions::kAll - 1, 301, 301, kHeads);
  const at::Tensor x = at::randn({4, 301, kHiddens}), upstream = at::randn({4, 301, kHiddens});
  auto plain = make_attention(AttentionPath::kPlain, at::kFloat),
       flash = make_attention(AttentionPath::kFlash, at::kFloat);
  const at::Tensor bias = r.bias.to(at::kFloat);
  const Outcome expected = attend(plain, r, x, x, bias, upstream, false);
  for (const bool packed : {false, true}) {
    const Outcome found = attend(flash, r, x, x, bias, upstream, packed);
    CHECK(max_difference(found.output, expected.output) < 1e-5);
    for (size_t g = 0; g < found.gradients.size(); ++g) {
      CHECK(max_difference(found.gradients[g], expected.gradients[g]) < 2e-4);
    }
  }
}

TEST_CASE("gradients under all restrictions agree with finite differences, the bias' too") {
  at::manual_seed(3);
  for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
    for (const bool packed : {false, true}) {
      const Restrictions r(Restrictions::kAll - 1, 4, 4, kHeads);
      auto attention = make_attention(path, at::kDouble);
      const auto layout = r.query_layout();
      const at::Tensor finite = r.bias.nan_to_num(0, 0, 0);
      const double error = fovea_tests::finite_difference_error(
          [&](const std::vector<at::Tensor>& in) {
            const AttentionMask mask = r.mask(packed, in[1]);
            if (!packed) return layout.zero_padding(attention->forward(in[0], in[0], in[0], mask));
            const at::Tensor x = layout.pack(in[0]);
            return attention->forward(x, x, x, mask);
          },
          {at::randn({4, 4, kHiddens}), finite});
      INFO(fovea::name_of(path) << ", packed " << packed);
      CHECK(error < 1e-8);
    }
  }
}

TEST_CASE("biases of every shape that broadcasts get gradients of their shape") {
  at::manual_seed(4);
  const auto layout = SequenceLayout::padded({3, 1, 4, 0}, 4);
  const at::Tensor x = at::randn({4, 4, kHiddens}), upstream = layout.zero_padding(at::randn({4, 4, kHiddens}));
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {4, 4}, {kHeads, 4, 4}, {1, kHeads, 1, 4}, {4, 1, 4, 4}, {4, kHeads, 4, 1}, {1}, {1, 1, 4, 1}}) {
    const at::Tensor bias = at::randn(shape);
    std::vector<at::Tensor> gradients, outputs;
    for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
      auto attention = make_attention(path, at::kFloat);
      for (const bool packed : {false, true}) {
        const at::Tensor b = bias.clone().requires_grad_();
        const auto mask = AttentionMask::self(packed ? layout.as_packed() : layout, true).with_bias(b);
        const at::Tensor in = packed ? layout.pack(x) : x;
        const at::Tensor y = attention->forward(in, in, in, mask);
        outputs.push_back(packed ? layout.pad(y) : layout.zero_padding(y));
        (outputs.back() * upstream).sum().backward();
        gradients.push_back(b.grad());
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      INFO("a bias of " << c10::str(bias.sizes()) << ", way " << i);
      CHECK(gradients[i].sizes() == bias.sizes());
      CHECK(max_difference(outputs[i], outputs[0]) < 1e-5);
      CHECK(max_difference(gradients[i], gradients[0]) < 1e-5);
    }
  }
}

TEST_CASE("C01 C02: a query without an edge, or whose window holds no key, is 0 and has gradient 0") {
  at::manual_seed(5);
  const auto queries = SequenceLayout::full(2, 4), keys = SequenceLayout::padded({6, 2}, 6);
  at::Tensor edges = at::ones({2, 4, 6}, at::kBool);
  edges[0][1].fill_(false);
  // Queries stand at 2, 3, 4, 5: of the second sequence's two keys the last three see none through this window.
  const AttentionMask base = AttentionMask::cross(queries, keys).with_window(1, 0);
  const at::Tensor empty = at::tensor({0, 1, 0, 0, 0, 1, 1, 1}, at::kLong).to(at::kBool).view({2, 4, 1});
  for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
    for (const bool by_bias : {false, true}) {
      INFO(fovea::name_of(path) << ", by a bias of -inf " << by_bias);
      auto attention = make_attention(path, at::kFloat);
      const at::Tensor x = at::randn({2, 4, kHiddens}).requires_grad_(),
                       y = at::randn({2, 6, kHiddens}).requires_grad_();
      at::Tensor bias = at::zeros({2, 1, 4, 6}).masked_fill(edges.logical_not().unsqueeze(1), -HUGE_VAL);
      bias.requires_grad_();
      const AttentionMask mask = by_bias ? base.with_bias(bias) : base.with_edges(edges);
      const at::Tensor out = attention->forward(x, y, y, mask);
      const at::Tensor weight = at::randn(out.sizes());
      (out * weight).sum().backward();
      CHECK(out.masked_select(empty).eq(0).all().item<bool>());
      CHECK(out.masked_select(empty.logical_not()).ne(0).all().item<bool>());
      CHECK(x.grad().masked_select(empty).eq(0).all().item<bool>());
      for (const at::Tensor& t : {x.grad(), y.grad()}) CHECK(at::isfinite(t).all().item<bool>());
      if (by_bias) {
        CHECK(at::isfinite(bias.grad()).all().item<bool>());
        CHECK(bias.grad().masked_select(empty.unsqueeze(1)).eq(0).all().item<bool>());
      }
    }
  }
}

TEST_CASE("C03: NaN in the padding of tokens and of the bias goes nowhere") {
  at::manual_seed(6);
  const Restrictions r(Restrictions::kAll - 1, 5, 5, kHeads);
  const auto layout = r.query_layout();
  const at::Tensor valid = layout.valid();  // (batch, steps)
  const at::Tensor x = at::randn({4, 5, kHiddens}), upstream = layout.zero_padding(at::randn({4, 5, kHiddens}));
  const at::Tensor padding = valid.logical_not().unsqueeze(-1);  // (batch, steps, 1)
  const at::Tensor outside = valid.unsqueeze(2).logical_and(valid.unsqueeze(1)).logical_not().unsqueeze(1);
  for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
    for (const bool packed : {false, true}) {
      auto attention = make_attention(path, at::kFloat);
      const auto run = [&](double fill) {
        const at::Tensor filled = x.masked_fill(padding, fill);
        return attend(attention, r, filled, filled, r.bias.to(at::kFloat).masked_fill(outside, fill), upstream, packed);
      };
      const Outcome expected = run(0.0);
      for (const double fill : {std::nan(""), HUGE_VAL, 1e30}) {
        const Outcome found = run(fill);
        INFO(fovea::name_of(path) << ", packed " << packed << ", filled with " << fill);
        CHECK(at::equal(found.output, expected.output));
        for (size_t g = 0; g < found.gradients.size(); ++g) {
          INFO("gradient " << g);
          CHECK(at::equal(found.gradients[g], expected.gradients[g]));
        }
        CHECK(found.gradients[2].masked_select(outside).eq(0).all().item<bool>());
      }
    }
  }
}

TEST_CASE("under restrictions all ways drop the same weights") {
  at::manual_seed(7);
  const Restrictions r(Restrictions::kAll - 1, 9, 9, kHeads);
  const at::Tensor x = at::randn({4, 9, kHiddens}), upstream = at::randn({4, 9, kHiddens});
  std::vector<Outcome> outcomes;
  for (const auto path : {AttentionPath::kPlain, AttentionPath::kFlash}) {
    auto attention = make_attention(path, at::kFloat, 0.4);
    for (const bool packed : {false, true}) {
      const RandomScope scope(1, 2);
      outcomes.push_back(attend(attention, r, x, x, r.bias.to(at::kFloat), upstream, packed));
    }
  }
  for (const Outcome& found : outcomes) {
    CHECK(max_difference(found.output, outcomes[0].output) < 1e-5);
    for (size_t g = 0; g < found.gradients.size(); ++g) {
      CHECK(max_difference(found.gradients[g], outcomes[0].gradients[g]) < 1e-4);
    }
  }
}

TEST_CASE("a traced mask is made of torch's own ops and follows its input's size") {
  at::manual_seed(8);
  auto attention = make_attention(AttentionPath::kFlash, at::kFloat);
  attention->eval();
  const at::NoGradGuard no_grad;
  const auto run = [&](const at::Tensor& x, const at::Tensor& bias, const at::Tensor& edges) {
    const AttentionMask mask = AttentionMask::self(SequenceLayout::full(x), true)
                                   .with_window(2, -1)
                                   .with_bias(bias)
                                   .with_edges(edges)
                                   .with_alibi(kHeads)
                                   .with_rotary();
    return attention->forward(x, x, x, mask);
  };
  const auto inputs = [](int64_t batch, int64_t steps) {
    return std::vector<at::Tensor>{at::randn({batch, steps, kHiddens}), at::randn({batch, 1, steps, steps}),
                                   at::rand({batch, steps, steps}) < 0.7};
  };
  fovea::exports::ScriptModule script(*attention);
  const auto example = inputs(2, 4);
  script.trace("forward", {"x", "bias", "edges"}, {example[0], example[1], example[2]},
               [&](const torch::jit::Stack& in) -> torch::jit::IValue {
                 return run(in[0].toTensor(), in[1].toTensor(), in[2].toTensor());
               });
  auto module = script.finish();
  for (const auto& node : module.get_method("forward").graph()->nodes()) {
    const std::string kind = node->kind().toQualString();
    CHECK((kind.starts_with("aten::") || kind.starts_with("prim::")));
  }
  for (const auto& [batch, steps] : std::vector<std::pair<int64_t, int64_t>>{{2, 4}, {1, 1}, {3, 9}, {1, 17}}) {
    const auto in = inputs(batch, steps);
    INFO(batch << " x " << steps);
    CHECK(max_difference(module.forward({in[0], in[1], in[2]}).toTensor(), run(in[0], in[1], in[2])) < 1e-5);
  }
}
