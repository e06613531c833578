#include "fovea/decode/search.h"

#include <cmath>

#include "fovea/core/error.h"
#include "tests/test.h"

using namespace fovea;
using namespace fovea::decode;
using fovea::nn::SequenceLayout;

namespace {

// Ids: pad 0, bos 1, eos 2, and words from 3 on.
constexpr decode::SpecialTokens kSpecial{.pad = 0, .bos = 1, .eos = 2, .unk = 0};

// A model by hand: the next token's probabilities depend on the last token and the position, through a table or a
// pseudo-random one. The state carries the first source token, so that sentences differ and reorders show.
class HandModel : public Seq2Seq {
 public:
  using Row = std::function<std::vector<double>(int64_t source, int64_t position, const std::vector<int64_t>& prefix)>;
  HandModel(int64_t vocab, Row row) : vocab_(vocab), row_(std::move(row)) {}

  Seq2SeqState encode(const at::Tensor& source, const SequenceLayout&,
                      const fovea::nn::Size& max_steps) const override {
    // The prefix itself is the cache: the whole history takes part in every reorder.
    return {{source.select(1, 0).clone(), at::zeros({source.size(0), max_steps.value() + 1}, at::kLong)},
            at::zeros({}, at::kLong)};
  }

  std::pair<at::Tensor, Seq2SeqState> decode_step(const at::Tensor& token, Seq2SeqState state) const override {
    const int64_t position = state.next_position();
    state.tensors[1].select(1, position).copy_(token);
    at::Tensor logits = at::full({token.size(0), vocab_}, -1e9);
    for (int64_t b = 0; b < token.size(0); ++b) {
      std::vector<int64_t> prefix;
      for (int64_t t = 0; t <= position; ++t) prefix.push_back(state.tensors[1][b][t].item<int64_t>());
      const auto p = row_(state.tensors[0][b].item<int64_t>(), position, prefix);
      for (int64_t v = 0; v < vocab_; ++v) {
        if (p[static_cast<size_t>(v)] > 0) logits[b][v] = std::log(p[static_cast<size_t>(v)]);
      }
    }
    state.position = state.position + 1;
    ++steps;
    return {logits, std::move(state)};
  }

  at::Tensor forward(const at::Tensor&, const SequenceLayout&, const at::Tensor&, const SequenceLayout&,
                     fovea::nn::AttentionRecorder*) const override {
    throw std::logic_error("a search has nothing to force");
  }

  int64_t max_len() const override { return 100; }
  mutable int steps = 0;

 private:
  int64_t vocab_;
  Row row_;
};

std::vector<double> random_row(int64_t source, int64_t position, const std::vector<int64_t>& prefix) {
  uint64_t h = static_cast<uint64_t>(source * 7919 + position);
  for (const int64_t t : prefix) h = (h ^ static_cast<uint64_t>(t)) * 0x100000001B3ull + 0x9E3779B9;
  std::vector<double> p(7, 0.0);
  double total = 0;
  for (size_t v = 2; v < p.size(); ++v) {
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDull;
    h ^= h >> 29;
    p[v] = 0.05 + static_cast<double>(h % 1000) / 1000;
    total += p[v];
  }
  for (auto& v : p) v /= total;
  return p;
}

// Every sequence that ends in <eos> within max_len, and every unfinished one of max_len tokens.
std::vector<Hypothesis> exhaustive(int64_t source, int64_t max_len, double alpha) {
  std::vector<Hypothesis> all;
  std::function<void(std::vector<int64_t>, double)> extend = [&](std::vector<int64_t> prefix, double logp) {
    const auto position = static_cast<int64_t>(prefix.size()) - 1;
    const std::vector<int64_t> words(prefix.begin() + 1, prefix.end());
    if (position == max_len) {
      all.push_back({words, logp, logp / std::pow(max_len, alpha), false});
      return;
    }
    const auto p = random_row(source, position, prefix);
    for (int64_t v = 2; v < 7; ++v) {
      const double next = logp + std::log(p[static_cast<size_t>(v)]);
      if (v == 2) {
        all.push_back({words, next, next / std::pow(position + 1, alpha), true});
      } else {
        auto longer = prefix;
        longer.push_back(v);
        extend(longer, next);
      }
    }
  };
  extend({1}, 0.0);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

std::vector<std::vector<Hypothesis>> run(HandModel& model, const std::vector<int64_t>& sources,
                                         const SearchOptions& options) {
  const auto batch = static_cast<int64_t>(sources.size());
  return search(model, at::tensor(sources, at::kLong).view({batch, 1}), SequenceLayout::full(batch, 1), kSpecial,
                options);
}

}  // namespace

TEST_CASE("C21: a beam that holds everything equals exhaustive search, for every length penalty") {
  for (const double alpha : {0.0, 0.75, 1.0, 2.0}) {
    for (const int64_t max_len : {1, 2, 3}) {
      HandModel model(7, random_row);
      const auto found =
          run(model, {3, 4, 5}, {.beam = 400, .length_penalty = alpha, .n_best = 400, .max_len = max_len});
      for (size_t i = 0; i < 3; ++i) {
        const auto expected = exhaustive(static_cast<int64_t>(3 + i), max_len, alpha);
        INFO("alpha " << alpha << " max_len " << max_len << " sentence " << i);
        REQUIRE(found[i].size() == expected.size());
        for (size_t j = 0; j < expected.size(); ++j) {
          CHECK(found[i][j].tokens == expected[j].tokens);
          CHECK(found[i][j].score == Approx(expected[j].score).margin(1e-5));
          CHECK(found[i][j].finished == expected[j].finished);
        }
      }
    }
  }
}

TEST_CASE("C21: beam 1 is greedy search") {
  for (int64_t source = 3; source < 30; ++source) {
    HandModel model(7, random_row);
    const auto found = run(model, {source}, {.beam = 1, .max_len = 8})[0][0];
    std::vector<int64_t> greedy, prefix = {1};
    bool finished = false;
    for (int64_t t = 0; t < 8; ++t) {
      const auto p = random_row(source, t, prefix);
      const auto best = std::max_element(p.begin(), p.end()) - p.begin();
      if (best == 2) {
        finished = true;
        break;
      }
      greedy.push_back(best);
      prefix.push_back(best);
    }
    CHECK(found.tokens == greedy);
    CHECK(found.finished == finished);
  }
}

TEST_CASE("C21: a likely early end does not hide a better, longer translation") {
  // <eos> at once has 0.4; the word 3 has 0.6 and is followed by 4 and <eos> surely.
  const auto row = [](int64_t, int64_t position, const std::vector<int64_t>&) -> std::vector<double> {
    if (position == 0) return {0, 0, 0.4, 0.6, 0};
    if (position == 1) return {0, 0, 0, 0, 1};
    return {0, 0, 1, 0, 0};
  };
  HandModel model(5, row);
  const auto found = run(model, {3}, {.beam = 2, .length_penalty = 0.75, .n_best = 2, .max_len = 5})[0];
  REQUIRE(found.size() == 2);
  CHECK(found[0].tokens == std::vector<int64_t>{3, 4});
  CHECK(found[0].log_probability == Approx(std::log(0.6)).margin(1e-6));
  CHECK(found[0].score == Approx(std::log(0.6) / std::pow(3, 0.75)).margin(1e-6));
  CHECK(found[1].tokens.empty());
  CHECK(found[1].finished);
}

TEST_CASE("C21: as many ends as the beam is wide do not hide a far better live hypothesis") {
  // Two poor ends at the first two steps; the word 3 goes on nearly surely and ends at the third.
  const auto row = [](int64_t, int64_t position, const std::vector<int64_t>& prefix) -> std::vector<double> {
    if (position == 0) return {0, 0, 0.02, 0.97, 0.01};
    if (prefix.back() == 4) return {0, 0, 0.9, 0.05, 0.05};
    return position == 1 ? std::vector<double>{0, 0, 0.02, 0.97, 0.01} : std::vector<double>{0, 0, 0.98, 0.01, 0.01};
  };
  for (const int64_t beam : {1, 2, 3, 4, 8}) {
    HandModel model(5, row);
    CHECK(run(model, {3}, {.beam = beam, .max_len = 10})[0][0].tokens == std::vector<int64_t>{3, 3});
  }
}

TEST_CASE("C21: what never ends is returned unfinished at the limit") {
  HandModel model(5, [](int64_t, int64_t, const std::vector<int64_t>&) {
    return std::vector<double>{0, 0, 0, 0.9, 0.1};
  });
  for (const int64_t beam : {1, 3}) {
    const auto found = run(model, {3}, {.beam = beam, .n_best = beam, .max_len = 4})[0];
    REQUIRE(found.size() == static_cast<size_t>(beam));
    CHECK(found[0].tokens == std::vector<int64_t>{3, 3, 3, 3});
    CHECK_FALSE(found[0].finished);
  }
}

TEST_CASE("C27: <unk> is never generated, however likely") {
  const decode::SpecialTokens special{.pad = 0, .bos = 1, .eos = 2, .unk = 3};
  HandModel model(6, [](int64_t, int64_t position, const std::vector<int64_t>&) -> std::vector<double> {
    return position == 2 ? std::vector<double>{0, 0, 1, 0, 0, 0} : std::vector<double>{0, 0, 0, 0.9, 0.06, 0.04};
  });
  for (const int64_t beam : {1, 4}) {
    const auto found = search(model, at::full({1, 1}, 4, at::kLong), SequenceLayout::full(1, 1), special,
                              {.beam = beam, .max_len = 5});
    CHECK(found[0][0].tokens == std::vector<int64_t>{4, 4});
  }
}

TEST_CASE("<pad> and <bos> are never generated, finished sentences leave the batch") {
  HandModel model(5, [](int64_t source, int64_t position, const std::vector<int64_t>&) -> std::vector<double> {
    if (position >= source) return {0, 0, 1, 0, 0};
    return {0.5, 0.4, 0.0, 0.1, 0};
  });
  const auto found = run(model, {4, 0, 2, 1}, {.beam = 1, .max_len = 9});
  CHECK(found[0][0].tokens == std::vector<int64_t>(4, 3));
  CHECK(found[1][0].tokens.empty());
  CHECK(found[2][0].tokens == std::vector<int64_t>(2, 3));
  CHECK(found[3][0].tokens == std::vector<int64_t>(1, 3));
  CHECK(model.steps == 5);  // the longest sentence and its <eos>, not max_len
}

TEST_CASE("C22: batch neighbours do not change a hypothesis") {
  std::vector<int64_t> sources;
  for (int64_t i = 0; i < 20; ++i) sources.push_back(3 + i * 5);
  for (const int64_t beam : {1, 4}) {
    const SearchOptions options{.beam = beam, .max_len = 7};
    HandModel model(7, random_row);
    const auto together = run(model, sources, options);
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto alone = run(model, {sources[i]}, options);
      CHECK(alone[0][0].tokens == together[i][0].tokens);
      CHECK(alone[0][0].log_probability == Approx(together[i][0].log_probability));
    }
  }
}

TEST_CASE("an empty source has an empty translation and is not asked for") {
  HandModel model(7, random_row);
  const auto layout = SequenceLayout::padded({1, 0, 1}, 1);
  const auto found = search(model, at::tensor({3, 0, 4}, at::kLong).view({3, 1}), layout, kSpecial, {.max_len = 4});
  CHECK(found[1].size() == 1);
  CHECK(found[1][0].tokens.empty());
  CHECK(found[2][0].tokens == run(model, {4}, {.max_len = 4})[0][0].tokens);
  const auto none =
      search(model, at::zeros({2, 1}, at::kLong), SequenceLayout::padded({0, 0}, 1), kSpecial, {.max_len = 4});
  CHECK(none.size() == 2);
}

TEST_CASE("C21: search options that make no sense are usage errors") {
  HandModel model(7, random_row);
  CHECK_THROWS_WITH(run(model, {3}, {.beam = 2, .n_best = 3, .max_len = 4}),
                    ContainsSubstring("got 3 with a beam of 2"));
  CHECK_THROWS_WITH(run(model, {3}, {.beam = 0, .max_len = 4}), ContainsSubstring("[1, 4096], got 0"));
  CHECK_THROWS_WITH(run(model, {3}, {.beam = 1, .n_best = 0, .max_len = 4}), ContainsSubstring("n-best"));
  CHECK_THROWS_WITH(run(model, {3}, {.beam = 1, .max_len = 0}), ContainsSubstring("greatest length"));
  for (const double penalty : {-1.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    CHECK_THROWS_WITH(run(model, {3}, {.length_penalty = penalty, .max_len = 4}), ContainsSubstring("from 0 on"));
  }
}

TEST_CASE("weights that give no probability are an error, not an empty translation") {
  class NanModel : public HandModel {
   public:
    using HandModel::HandModel;
    std::pair<at::Tensor, Seq2SeqState> decode_step(const at::Tensor& token, Seq2SeqState state) const override {
      return {at::full({token.size(0), 5}, std::nan("")), std::move(state)};
    }
  } nan_model(5, random_row);
  CHECK_THROWS_WITH(run(nan_model, {3}, {.max_len = 4}), ContainsSubstring("weights are damaged"));
}
