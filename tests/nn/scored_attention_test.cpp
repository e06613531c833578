#include "fovea/nn/scored_attention.h"

#include <torch/torch.h>

#include <cmath>

#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using fovea_tests::max_difference;
using nn::Score;
using nn::ScoreWeights;

namespace {

struct Inputs {
  at::Tensor queries = at::randn({3, 2, 6}, at::kDouble), keys = at::randn({3, 5, 6}, at::kDouble),
             values = at::randn({3, 5, 4}, at::kDouble);
  nn::AttentionMask mask = nn::AttentionMask::from_valid_lens(at::tensor({5, 2, 0}, at::kLong), 3, 2, 5);

  Inputs() = default;
};

nn::ScoredAttention make(Score score, ScoreWeights weights = ScoreWeights::kSoftmax, int64_t local_width = 0) {
  nn::ScoredAttention attention(nn::ScoredAttentionOptions{.query_size = 6,
                                                           .key_size = 6,
                                                           .num_hiddens = 7,
                                                           .score = score,
                                                           .weights = weights,
                                                           .local_width = local_width,
                                                           .max_keys = 9});
  attention->to(at::kDouble);
  return attention;
}

at::Tensor parameter(const nn::ScoredAttention& attention, const std::string& name) {
  return attention->named_parameters()[name];
}

// The score of one query and one key, by its definition.
double slow_score(const nn::ScoredAttention& a, Score score, const at::Tensor& q, const at::Tensor& k, int64_t j) {
  switch (score) {
    case Score::kAdditive:
      return parameter(a, "w_v.weight")
          .matmul(at::tanh(parameter(a, "W_q.weight").matmul(q) + parameter(a, "W_k.weight").matmul(k)))
          .item<double>();
    case Score::kDot:
      return q.dot(k).item<double>();
    case Score::kScaledDot:
      return q.dot(k).item<double>() / std::sqrt(6.0);
    case Score::kGeneral:
      return q.dot(parameter(a, "W_k.weight").matmul(k)).item<double>();
    case Score::kCosine:
      return (parameter(a, "scale") * q.dot(k) / (q.norm() * k.norm())).item<double>();
    case Score::kLocation:
      return (parameter(a, "W_l.weight").matmul(q) + parameter(a, "W_l.bias"))[j].item<double>();
  }
  return 0;
}

constexpr std::array kScores = {Score::kAdditive, Score::kDot,    Score::kScaledDot,
                                Score::kGeneral,  Score::kCosine, Score::kLocation};

}  // namespace

TEST_CASE("every score and every way to weights equals its definition, key by key") {
  torch::manual_seed(1);
  const Inputs in;
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> lengths = {5, 2, 0};
  for (const Score score : kScores) {
    for (const auto weights : {ScoreWeights::kSoftmax, ScoreWeights::kRelu, ScoreWeights::kHard}) {
      INFO(name_of(score) << " " << name_of(weights));
      nn::ScoredAttention attention = make(score, weights);
      nn::AttentionRecorder recorder;
      const at::Tensor y = attention->forward(in.queries, in.keys, in.values, in.mask, &recorder);
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t q = 0; q < 2; ++q) {
          at::Tensor expected = at::zeros({5}, at::kDouble);
          const int64_t n = lengths[static_cast<size_t>(b)];
          if (n > 0) {
            at::Tensor scores = at::empty({n}, at::kDouble);
            for (int64_t j = 0; j < n; ++j)
              scores[j] = slow_score(attention, score, in.queries[b][q], in.keys[b][j], j);
            at::Tensor w = at::softmax(scores, 0);
            if (weights == ScoreWeights::kRelu) w = at::relu(scores) / n;
            if (weights == ScoreWeights::kHard) w = at::zeros({n}, at::kDouble).scatter(0, scores.argmax(0, true), 1.0);
            expected.narrow(0, 0, n).copy_(w);
          }
          CHECK(max_difference(recorder.records()[0].weights[b][0][q], expected) < 1e-12);
          CHECK(max_difference(y[b][q], expected.matmul(in.values[b])) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("local attention looks around the place that it predicts, and nowhere else") {
  torch::manual_seed(2);
  const Inputs in;
  const at::NoGradGuard no_grad;
  nn::ScoredAttention global = make(Score::kDot), local = make(Score::kDot, ScoreWeights::kSoftmax, 1);
  nn::AttentionRecorder global_weights, local_weights;
  global->forward(in.queries, in.keys, in.values, in.mask, &global_weights);
  local->forward(in.queries, in.keys, in.values, in.mask, &local_weights);
  for (int64_t b = 0; b < 2; ++b) {
    const double length = b == 0 ? 5 : 2;
    for (int64_t q = 0; q < 2; ++q) {
      const double centre =
          length *
          at::sigmoid(
              parameter(local, "v_p.weight").matmul(at::tanh(parameter(local, "W_p.weight").matmul(in.queries[b][q]))))
              .item<double>();
      for (int64_t j = 0; j < 5; ++j) {
        const double distance = std::abs(static_cast<double>(j) - centre);
        const double window = distance <= 1 ? std::exp(-distance * distance / 0.5) : 0;
        const auto weight = [&](const nn::AttentionRecorder& r) {
          return r.records()[0].weights[b][0][q][j].item<double>();
        };
        CHECK(weight(local_weights) == Approx(weight(global_weights) * window).margin(1e-12));
      }
    }
  }
}

TEST_CASE("gradients of every score agree with finite differences") {
  torch::manual_seed(3);
  const Inputs in;
  for (const Score score : kScores) {
    INFO(name_of(score));
    nn::ScoredAttention attention = make(score);
    // A location knows nothing of the keys.
    const bool looks = score != Score::kLocation;
    std::vector<at::Tensor> inputs = {in.queries, in.values};
    if (looks) inputs.push_back(in.keys);
    CHECK(fovea_tests::finite_difference_error(
              [&](const std::vector<at::Tensor>& x) {
                return attention->forward(x[0], looks ? x[2] : in.keys, x[1], in.mask);
              },
              inputs) < 1e-6);
  }
}

TEST_CASE("hard attention learns by the gradient of softmax") {
  torch::manual_seed(4);
  const Inputs in;
  nn::ScoredAttention hard = make(Score::kDot, ScoreWeights::kHard), soft = make(Score::kDot);
  const auto gradient = [&](nn::ScoredAttention& attention) {
    at::Tensor q = in.queries.clone().requires_grad_(true);
    return torch::autograd::grad({attention->forward(q, in.keys, in.values, in.mask).sum()}, {q})[0];
  };
  CHECK(max_difference(gradient(hard), gradient(soft)) < 1e-12);
}

TEST_CASE("the variance of a dot product is the number of its dimensions, and 1 after scaling") {
  torch::manual_seed(5);
  for (const int64_t d : {4, 64, 512}) {
    const at::Tensor q = at::randn({20000, d}), k = at::randn({20000, d});
    const at::Tensor dot = (q * k).sum(1);
    CHECK(dot.var().item<double>() == Approx(static_cast<double>(d)).epsilon(0.05));
    CHECK((dot / std::sqrt(static_cast<double>(d))).var().item<double>() == Approx(1.0).epsilon(0.05));
  }
}

TEST_CASE("scores refuse sizes that they cannot compare") {
  for (const Score score : {Score::kDot, Score::kScaledDot, Score::kCosine}) {
    CHECK_THROWS_WITH(nn::ScoredAttention(nn::ScoredAttentionOptions{.query_size = 4, .key_size = 5, .score = score}),
                      ContainsSubstring("queries and keys of one size, got 4 and 5"));
  }
  CHECK_NOTHROW(
      nn::ScoredAttention(nn::ScoredAttentionOptions{.query_size = 4, .key_size = 5, .score = Score::kGeneral}));
}
