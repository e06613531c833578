// What the book and its lectures say of attention, shown on the layers themselves.
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "fovea/nn/attention.h"
#include "fovea/nn/transformer.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using namespace fovea::nn;
using fovea_tests::max_difference;

TEST_CASE("self-attention without positions is permutation equivariant; with positions it is not") {
  torch::manual_seed(1);
  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 12, .num_heads = 3});
  attention->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({2, 7, 12}), order = at::randperm(7);
  const auto layout = SequenceLayout::full(x);
  const auto run = [&](const at::Tensor& t, const AttentionMask& mask) { return attention->forward(t, t, t, mask); };
  const AttentionMask plain = AttentionMask::self(layout);
  CHECK(max_difference(run(x.index_select(1, order), plain), run(x, plain).index_select(1, order)) < 1e-5);
  for (const auto& mask : {plain.with_rotary(), plain.with_alibi(3), AttentionMask::self(layout, /*causal=*/true)}) {
    CHECK(max_difference(run(x.index_select(1, order), mask), run(x, mask).index_select(1, order)) > 1e-3);
  }
}

TEST_CASE("the position-wise network maps equal rows to equal rows, and is a convolution of width 1") {
  torch::manual_seed(2);
  PositionWiseFFN ffn(6, 10, 4);
  const at::NoGradGuard no_grad;
  const at::Tensor row = at::randn({1, 1, 6});
  const at::Tensor same = ffn->forward(row.expand({2, 5, 6}).contiguous());
  CHECK(max_difference(same, same.narrow(0, 0, 1).narrow(1, 0, 1).expand({2, 5, 4})) < 1e-6);

  const at::Tensor x = at::randn({2, 5, 6});
  const auto parameters = ffn->named_parameters();
  const auto conv = [&](const at::Tensor& t, const std::string& layer) {
    return at::conv1d(t, parameters[layer + ".weight"].unsqueeze(-1), parameters[layer + ".bias"]);
  };
  const at::Tensor convolved = conv(at::relu(conv(x.transpose(1, 2), "dense1")), "dense2").transpose(1, 2);
  CHECK(max_difference(ffn->forward(x), convolved) < 1e-5);
}

TEST_CASE("attention with relative positions and K^2 heads equals any K x K convolution") {
  // Cordonnier, Loukas and Jaggi 2020: each head looks at one shift and nothing else; outside the image it sees
  // nothing.
  torch::manual_seed(3);
  constexpr int64_t kernel = 3, channels = 2, outputs = 5, rows = 4, columns = 6;
  constexpr int64_t heads = kernel * kernel, width = heads * channels, tokens = rows * columns;
  const at::Tensor image = at::randn({2, channels, rows, columns}),
                   weight = at::randn({outputs, channels, kernel, kernel});
  const at::NoGradGuard no_grad;

  MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = width, .num_heads = heads});
  auto parameters = attention->named_parameters();
  for (auto& item : parameters) item.value().zero_();
  at::Tensor bias = at::full({1, heads, tokens, tokens}, -std::numeric_limits<float>::infinity());
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t down = h / kernel - 1, right = h % kernel - 1;
    for (int64_t c = 0; c < channels; ++c) {
      parameters["W_v.weight"][h * channels + c][c] = 1;
      for (int64_t o = 0; o < outputs; ++o) {
        parameters["W_o.weight"][o][h * channels + c] = weight[o][c][h / kernel][h % kernel];
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t y = r + down, x = c + right;
        if (y >= 0 && y < rows && x >= 0 && x < columns) bias[0][h][r * columns + c][y * columns + x] = 0;
      }
    }
  }
  at::Tensor x = at::zeros({2, tokens, width});
  x.narrow(2, 0, channels).copy_(image.flatten(2).transpose(1, 2));
  const AttentionMask mask = AttentionMask::self(SequenceLayout::full(x)).with_bias(bias);
  const at::Tensor y = attention->forward(x, x, x, mask).narrow(2, 0, outputs);
  const at::Tensor expected = at::conv2d(image, weight, {}, 1, 1).flatten(2).transpose(1, 2);
  CHECK(max_difference(y, expected) < 1e-4);
}

TEST_CASE("the matrix form of attention equals the loop over queries, head by head") {
  torch::manual_seed(4);
  constexpr int64_t n = 12;
  for (const int64_t heads : {1, 4}) {
    MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = n, .num_heads = heads});
    attention->to(at::kDouble);
    const at::NoGradGuard no_grad;
    const at::Tensor x = at::randn({1, 5, n}, at::kDouble);
    const auto parameters = attention->named_parameters();
    const auto project = [&](const std::string& name, const at::Tensor& row) {
      return parameters[name + ".weight"].matmul(row).view({heads, -1});
    };
    at::Tensor expected = at::empty({5, n}, at::kDouble);
    for (int64_t i = 0; i < 5; ++i) {
      const at::Tensor q = project("W_q", x[0][i]);
      at::Tensor out = at::zeros({heads, n / heads}, at::kDouble);
      for (int64_t h = 0; h < heads; ++h) {
        at::Tensor scores = at::empty({5}, at::kDouble);
        for (int64_t j = 0; j < 5; ++j) {
          scores[j] = q[h].dot(project("W_k", x[0][j])[h]) / std::sqrt(static_cast<double>(n / heads));
        }
        const at::Tensor weights = at::softmax(scores, 0);
        for (int64_t j = 0; j < 5; ++j) out[h] += weights[j] * project("W_v", x[0][j])[h];
      }
      expected[i] = parameters["W_o.weight"].matmul(out.flatten());
    }
    const AttentionMask mask = AttentionMask::self(SequenceLayout::full(x));
    CHECK(max_difference(attention->forward(x, x, x, mask)[0], expected) < 1e-10);
  }
}

TEST_CASE("one head and many have as many parameters at equal size") {
  const auto count = [](int64_t heads) {
    MultiHeadAttention attention(MultiHeadAttentionOptions{.num_hiddens = 48, .num_heads = heads});
    int64_t total = 0;
    for (const auto& p : attention->parameters()) total += p.numel();
    return total;
  };
  for (const int64_t heads : {2, 4, 8, 48}) CHECK(count(heads) == count(1));
}
