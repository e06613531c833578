#include "fovea/ops/recurrent.h"

#include <torch/torch.h>

#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using fovea_tests::max_difference;

namespace {

struct Case {
  std::vector<int64_t> lengths;
  int64_t hiddens;
  bool lstm, reverse, bias;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool lstm : {false, true}) {
    for (const bool reverse : {false, true}) {
      cases.push_back({{3, 1, 4}, 5, lstm, reverse, true});
      cases.push_back({{0, 2, 0, 6, 6, 1}, 19, lstm, reverse, false});
      cases.push_back({{1}, 1, lstm, reverse, true});
      cases.push_back({{0, 0}, 3, lstm, reverse, true});
      cases.push_back({{7, 7, 7}, 32, lstm, reverse, true});
    }
  }
  return cases;
}

struct Arguments {
  at::Tensor gates, weight, bias, h0, c0, lengths;

  Arguments(const Case& c, at::ScalarType type) {
    torch::manual_seed(5);
    const int64_t width = (c.lstm ? 4 : 3) * c.hiddens, batch = static_cast<int64_t>(c.lengths.size());
    lengths = at::tensor(c.lengths, at::kLong);
    const auto random = [&](at::IntArrayRef sizes) {
      return at::randn(sizes, at::kDouble).to(type).requires_grad_(true);
    };
    gates = random({lengths.sum().item<int64_t>(), width});
    weight = random({width, c.hiddens});
    if (c.bias) bias = random({width});
    h0 = random({batch, c.hiddens});
    if (c.lstm) c0 = random({batch, c.hiddens});
  }

  std::vector<at::Tensor> differentiable() const {
    std::vector<at::Tensor> all;
    for (const auto& t : {gates, weight, bias, h0, c0}) {
      if (t.defined()) all.push_back(t);
    }
    return all;
  }
};

// Token by token, sequence by sequence, as nn.GRU and nn.LSTM are defined.
std::vector<at::Tensor> slow(const Arguments& a, const Case& c) {
  std::vector<at::Tensor> y(static_cast<size_t>(a.gates.size(0))), h_n, c_n;
  int64_t start = 0;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    at::Tensor h = a.h0[static_cast<int64_t>(s)], cell = c.lstm ? a.c0[static_cast<int64_t>(s)] : at::Tensor();
    for (int64_t i = 0; i < c.lengths[s]; ++i) {
      const int64_t token = start + (c.reverse ? c.lengths[s] - 1 - i : i);
      at::Tensor products = a.weight.matmul(h);
      if (a.bias.defined()) products = products + a.bias;
      const auto x = a.gates[token].chunk(c.lstm ? 4 : 3), p = products.chunk(c.lstm ? 4 : 3);
      if (c.lstm) {
        cell = at::sigmoid(x[1] + p[1]) * cell + at::sigmoid(x[0] + p[0]) * at::tanh(x[2] + p[2]);
        h = at::sigmoid(x[3] + p[3]) * at::tanh(cell);
      } else {
        const at::Tensor z = at::sigmoid(x[1] + p[1]);
        h = (1 - z) * at::tanh(x[2] + at::sigmoid(x[0] + p[0]) * p[2]) + z * h;
      }
      y[static_cast<size_t>(token)] = h;
    }
    start += c.lengths[s];
    h_n.push_back(h);
    if (c.lstm) c_n.push_back(cell);
  }
  std::vector<at::Tensor> outputs = {y.empty() ? at::zeros({0, c.hiddens}, a.gates.options()) : at::stack(y),
                                     at::stack(h_n)};
  if (c.lstm) outputs.push_back(at::stack(c_n));
  return outputs;
}

std::vector<at::Tensor> fused(const Arguments& a, const Case& c) {
  const auto [y, h, cell] = ops::recurrent(a.gates, a.weight, a.bias, a.h0, a.c0, a.lengths, c.reverse);
  if (c.lstm) return {y, h, cell};
  return {y, h};
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs, const Arguments& a) {
  torch::manual_seed(6);
  at::Tensor loss = at::zeros({}, a.gates.options());
  for (const auto& output : outputs) loss = loss + (output * at::randn_like(output)).sum();
  auto found = torch::autograd::grad({loss}, a.differentiable(), {}, c10::nullopt, false, /*allow_unused=*/true);
  const auto inputs = a.differentiable();
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = at::zeros_like(inputs[i]);  // of a batch without tokens
  }
  return found;
}

}  // namespace

TEST_CASE("the recurrent op equals a loop over tokens, forward and backward") {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const double tolerance = type == at::kDouble ? 1e-10 : 1e-4;
    for (const auto& c : all_cases()) {
      INFO(c10::toString(type) << (c.lstm ? " lstm " : " gru ") << (c.reverse ? "reverse " : "") << c.lengths
                               << " hiddens " << c.hiddens);
      const Arguments a(c, type);
      const auto expected = slow(a, c), found = fused(a, c);
      for (size_t i = 0; i < expected.size(); ++i) CHECK(max_difference(found[i], expected[i]) < tolerance);
      const auto expected_gradients = gradients(expected, a), found_gradients = gradients(found, a);
      for (size_t i = 0; i < expected_gradients.size(); ++i) {
        CHECK(max_difference(found_gradients[i], expected_gradients[i]) < tolerance * 10);
      }
    }
  }
}

TEST_CASE("the recurrent op survives numbers that saturate every gate") {
  const Case c{{3, 2}, 4, true, false, true};
  for (const double scale : {1e3, -1e3}) {
    Arguments a(c, at::kFloat);
    a.gates = at::full_like(a.gates, scale).requires_grad_(true);
    for (const auto& output : fused(a, c)) CHECK(at::isfinite(output).all().item<bool>());
    for (const auto& gradient : gradients(fused(a, c), a)) CHECK(at::isfinite(gradient).all().item<bool>());
  }
}

TEST_CASE("the recurrent op names what does not fit") {
  const Arguments a({{2, 1}, 3, false, false, true}, at::kFloat);
  const auto call = [](const at::Tensor& gates, const at::Tensor& weight, const at::Tensor& h0,
                       const at::Tensor& lengths) { return ops::recurrent(gates, weight, {}, h0, {}, lengths, false); };
  CHECK_THROWS_WITH(call(a.gates.narrow(1, 0, 8), a.weight, a.h0, a.lengths),
                    ContainsSubstring("expected 3 gates of 3 hiddens"));
  CHECK_THROWS_WITH(call(a.gates, a.weight.t(), a.h0, a.lengths), ContainsSubstring("expected weight_hh (9, 3)"));
  CHECK_THROWS_WITH(call(a.gates, a.weight, a.h0, at::tensor({2, 2}, at::kLong)),
                    ContainsSubstring("the lengths add up to 4"));
  CHECK_THROWS_WITH(call(a.gates, a.weight, a.h0, at::tensor({4, -1}, at::kLong)),
                    ContainsSubstring("a length is negative"));
  CHECK_THROWS_WITH(call(a.gates, a.weight, a.h0.to(at::kDouble), a.lengths), ContainsSubstring("another argument is"));
  CHECK_THROWS_WITH(torch::autograd::grad({torch::autograd::grad({fused(a, {{2, 1}, 3, false, false, true})[0].sum()},
                                                                 {a.gates}, {}, {}, /*create_graph=*/true)[0]
                                               .sum()},
                                          {a.gates}),
                    ContainsSubstring("gradients of gradients"));
}
