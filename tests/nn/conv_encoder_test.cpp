#include "fovea/nn/conv_encoder.h"

#include <torch/torch.h>

#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea::nn;
using fovea_tests::max_difference;

namespace {

constexpr int64_t kEncoderHiddens = 6, kEncoderLayers = 3, kEncoderKernel = 5, kDecoderLayers = 2;

ConvEncoder make_encoder(Cell cell = Cell::kGru) {
  ConvEncoder encoder(Seq2SeqOptions{.vocab_size = 11,
                                     .embed_size = 4,
                                     .num_hiddens = kEncoderHiddens,
                                     .num_layers = kDecoderLayers,
                                     .dropout = 0.0,
                                     .cell = cell,
                                     .max_len = 9},
                      ConvEncoderOptions{.num_layers = kEncoderLayers, .kernel_size = kEncoderKernel});
  encoder->to(at::kDouble);
  return encoder;
}

// One sentence, token by token and channel by channel: (steps, hiddens).
at::Tensor slow_outputs(ConvEncoderImpl& encoder, const at::Tensor& tokens) {
  const auto p = encoder.named_parameters();
  const int64_t steps = tokens.size(0);
  at::Tensor x = at::linear(p["embedding.weight"].index_select(0, tokens) + p["pos_encoding.P"][0].narrow(0, 0, steps),
                            p["input.weight"], p["input.bias"]);
  for (int64_t layer = 0; layer < kEncoderLayers; ++layer) {
    const std::string name = "convs." + std::to_string(layer);
    const at::Tensor weight = p[name + ".weight"], bias = p[name + ".bias"];  // (2 hiddens, hiddens, kernel)
    at::Tensor y = at::zeros_like(x);
    for (int64_t t = 0; t < steps; ++t) {
      at::Tensor sum = bias.clone();
      for (int64_t k = 0; k < kEncoderKernel; ++k) {
        const int64_t from = t + k - kEncoderKernel / 2;
        if (from >= 0 && from < steps) sum = sum + at::mv(weight.select(2, k), x[from]);
      }
      const at::Tensor gated =
          sum.narrow(0, 0, kEncoderHiddens) * at::sigmoid(sum.narrow(0, kEncoderHiddens, kEncoderHiddens));
      y[t].copy_((x[t] + gated) * std::sqrt(0.5));
    }
    x = y;
  }
  return x;
}

}  // namespace

TEST_CASE("the convolutional encoder equals the loop over tokens, padded and packed, whatever the padding holds") {
  ConvEncoder encoder = make_encoder();
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = at::randint(0, 11, {3, 8}, at::kLong);
  const std::vector<int64_t> lengths = {8, 1, 5};
  const auto padded = SequenceLayout::padded(lengths, 8);
  const auto packed = padded.as_packed();
  const RecurrentOutput one = encoder->forward(tokens, padded), other = encoder->forward(packed.pack(tokens), packed);
  CHECK(max_difference(packed.pad(other.y), padded.zero_padding(one.y)) < 1e-12);
  REQUIRE(one.state.size() == kDecoderLayers);
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    const at::Tensor expected = slow_outputs(*encoder, tokens[i].narrow(0, 0, length));
    CHECK(max_difference(one.y[i].narrow(0, 0, length), expected) < 1e-12);
    const at::Tensor state = at::tanh(encoder->named_parameters()["bridge.weight"].mv(expected.mean(0)) +
                                      encoder->named_parameters()["bridge.bias"]);
    for (int64_t layer = 0; layer < kDecoderLayers; ++layer) {
      const at::Tensor own = state.narrow(0, layer * kEncoderHiddens, kEncoderHiddens);
      CHECK(max_difference(one.state[static_cast<size_t>(layer)][i], own) < 1e-12);
      CHECK(max_difference(other.state[static_cast<size_t>(layer)][i], own) < 1e-12);
    }
  }
  at::Tensor changed = tokens.clone();
  changed[1].narrow(0, 1, 7).fill_(3);
  CHECK(at::equal(padded.zero_padding(encoder->forward(changed, padded).y), padded.zero_padding(one.y)));
}

TEST_CASE("the convolutional encoder starts an LSTM's cells with zeros, and has the right gradients") {
  ConvEncoder encoder = make_encoder(Cell::kLstm);
  const at::Tensor tokens = at::randint(0, 11, {2, 4}, at::kLong);
  const auto layout = SequenceLayout::padded(at::tensor({4, 2}, at::kLong), 4);
  const auto loss = [&] {
    const RecurrentOutput out = encoder->forward(tokens, layout);
    return layout.zero_padding(out.y).square().sum() + out.state[0].sum() + out.state[2].square().sum();
  };
  const RecurrentOutput out = encoder->forward(tokens, layout);
  REQUIRE(out.state.size() == 2 * kDecoderLayers);
  CHECK(out.state[1].abs().sum().item<double>() == 0);
  loss().backward();
  const at::NoGradGuard no_grad;
  for (const char* name : {"convs.1.weight", "pos_encoding.P", "bridge.weight", "embedding.weight", "input.bias"}) {
    INFO(name);
    at::Tensor parameter = encoder->named_parameters()[name];
    const at::Tensor direction = at::randn_like(parameter);
    const double slope = (parameter.grad() * direction).sum().item<double>();
    constexpr double kStep = 1e-5;
    parameter.add_(direction, kStep);
    const double above = loss().item<double>();
    parameter.add_(direction, -2 * kStep);
    const double below = loss().item<double>();
    parameter.add_(direction, kStep);
    CHECK(slope == Approx((above - below) / (2 * kStep)).epsilon(1e-6));
  }
}
