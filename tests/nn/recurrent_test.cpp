#include "fovea/nn/recurrent.h"

#include <torch/torch.h>

#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using fovea_tests::max_difference;

TEST_CASE("recurrent layers equal torch's own, padded and packed, in one direction and two") {
  for (const nn::Cell cell : {nn::Cell::kGru, nn::Cell::kLstm}) {
    for (const bool bidirectional : {false, true}) {
      torch::manual_seed(3);
      nn::Recurrent layers(nn::RecurrentOptions{
          .input_size = 5, .num_hiddens = 8, .num_layers = 2, .cell = cell, .bidirectional = bidirectional});
      const auto layout = nn::SequenceLayout::padded({4, 0, 6, 1}, 6);
      const at::Tensor x = layout.zero_padding(at::randn({4, 6, 5}));
      const auto run = [&](bool packed) {
        auto out = packed ? layers->forward(layout.pack(x), layout.as_packed()) : layers->forward(x, layout);
        if (packed) out.y = layout.pad(out.y);
        return out;
      };
      const auto padded = run(false), packed = run(true);
      CHECK(max_difference(padded.y, packed.y) < 1e-6);
      REQUIRE(padded.state.size() == packed.state.size());

      // torch's module with the same parameters, sequence by sequence.
      const int64_t width = bidirectional ? 4 : 8;
      for (const int64_t s : {0, 2, 3}) {
        const int64_t length = layout.host_lengths()[static_cast<size_t>(s)];
        const at::Tensor one = x[s].narrow(0, 0, length).unsqueeze(0);
        std::vector<at::Tensor> parameters;
        for (const auto& p : layers->parameters(/*recurse=*/false)) parameters.push_back(p);
        const at::Tensor zeros = at::zeros({bidirectional ? 4 : 2, 1, width});
        at::Tensor y, h;
        if (cell == nn::Cell::kGru) {
          std::tie(y, h) = at::gru(one, zeros, parameters, true, 2, 0.0, false, bidirectional, true);
        } else {
          at::Tensor c;
          std::tie(y, h, c) = at::lstm(one, {zeros, zeros}, parameters, true, 2, 0.0, false, bidirectional, true);
        }
        CHECK(max_difference(padded.y[s].narrow(0, 0, length), y[0]) < 1e-5);
        const size_t last = cell == nn::Cell::kGru ? 1 : 2;  // h of the second layer
        const at::Tensor expected = bidirectional ? at::cat({h[2][0], h[3][0]}) : h[1][0];
        CHECK(max_difference(padded.state[last][s], expected) < 1e-5);
      }
      CHECK(padded.y[1].abs().max().item<double>() == 0);
    }
  }
}

TEST_CASE("stepping token by token equals the whole sequence") {
  for (const nn::Cell cell : {nn::Cell::kGru, nn::Cell::kLstm}) {
    torch::manual_seed(4);
    nn::Recurrent layers(nn::RecurrentOptions{.input_size = 3, .num_hiddens = 7, .num_layers = 2, .cell = cell});
    const at::Tensor x = at::randn({2, 5, 3});
    const auto whole = layers->forward(x, nn::SequenceLayout::full(x));
    nn::Cache state = layers->make_state(x);
    for (int64_t t = 0; t < 5; ++t) {
      nn::CacheCursor cursor(state);
      CHECK(max_difference(layers->step(x.select(1, t), cursor), whole.y.select(1, t)) < 1e-6);
      cursor.check_end();
    }
    for (size_t i = 0; i < state.size(); ++i) CHECK(max_difference(state[i], whole.state[i]) < 1e-6);
  }
}

TEST_CASE("recurrent layers refuse sizes that cannot be") {
  CHECK_THROWS_WITH(nn::Recurrent(nn::RecurrentOptions{.num_hiddens = 4}), ContainsSubstring("got 0 inputs"));
  CHECK_THROWS_WITH(nn::Recurrent(nn::RecurrentOptions{.input_size = 2, .num_hiddens = 5, .bidirectional = true}),
                    ContainsSubstring("even num_hiddens, got 5"));
  nn::Recurrent both(nn::RecurrentOptions{.input_size = 2, .num_hiddens = 4, .bidirectional = true});
  nn::Cache state = both->make_state(at::zeros({1, 2}));
  nn::CacheCursor cursor(state);
  CHECK_THROWS_WITH(both->step(at::zeros({1, 2}), cursor), ContainsSubstring("need the whole sequence"));
}
