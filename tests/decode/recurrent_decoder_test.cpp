// A decoder with a recurrent state, and one that has attention besides: the same contract as the Transformer's.
#include <cmath>

#include "fovea/decode/search.h"
#include "fovea/nn/attention.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using namespace fovea::nn;
using fovea_tests::max_difference;

namespace {

constexpr decode::SpecialTokens kTokens{.pad = 0, .bos = 1, .eos = 2, .unk = 3};
constexpr int64_t kVocabulary = 9, kWidth = 8;

// A GRU cell as a layer that decodes: its cache is one tensor, replaced at each step.
struct GruLayerImpl : torch::nn::Module {
  GruLayerImpl() { cell = register_module("cell", torch::nn::GRUCell(kWidth, kWidth)); }
  Cache make_cache(const at::Tensor& first) const { return {first}; }  // (batch, kWidth)
  at::Tensor step(const at::Tensor& x, CacheCursor& cache) {           // x (batch, kWidth)
    at::Tensor& hidden = cache.next();
    return hidden = cell->forward(x, hidden);
  }
  torch::nn::GRUCell cell{nullptr};
};
TORCH_MODULE(GruLayer);

struct GruNetImpl : torch::nn::Module {
  explicit GruNetImpl(bool with_attention) : attends(with_attention) {
    source = register_module("source", torch::nn::Embedding(kVocabulary, kWidth));
    target = register_module("target", torch::nn::Embedding(kVocabulary, kWidth));
    lower = register_module("lower", GruLayer());
    upper = register_module("upper", GruLayer());
    attention = register_module("attention",
                                MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = kWidth, .num_heads = 2}));
    dense = register_module("dense", torch::nn::Linear(kWidth, kVocabulary));
    const at::NoGradGuard no_grad;
    for (auto& p : parameters()) p.normal_(0, 1);  // far from uniform, so that hypotheses differ
  }

  Cache make_cache(const at::Tensor& tokens, const SequenceLayout& layout) {
    const at::Tensor encoded = layout.zero_padding(source->forward(tokens));  // (batch, steps, kWidth)
    Cache cache = lower->make_cache(encoded.sum(1).tanh());
    append(cache, upper->make_cache(at::zeros_like(cache.front())));
    if (attends) append(cache, attention->make_cross_cache(encoded, layout));
    return cache;
  }
  at::Tensor step(const at::Tensor& token, Cache& cache) {
    CacheCursor cursor(cache);
    at::Tensor x = upper->step(lower->step(target->forward(token), cursor), cursor);  // (batch, kWidth)
    if (attends) x = x + attention->cross_step(x.unsqueeze(1), cursor).squeeze(1);
    cursor.check_end();
    return dense->forward(x);  // (batch, kVocabulary)
  }

  bool attends;
  torch::nn::Embedding source{nullptr}, target{nullptr};
  GruLayer lower{nullptr}, upper{nullptr};
  MultiHeadAttention attention{nullptr};
  torch::nn::Linear dense{nullptr};
};
TORCH_MODULE(GruNet);

class GruTranslator : public decode::Seq2Seq {
 public:
  explicit GruTranslator(bool attends) : net_(attends) {}

  decode::Seq2SeqState encode(const at::Tensor& source, const SequenceLayout& layout, const Size&) const override {
    return {net_.ptr()->make_cache(source, layout), at::zeros({}, at::kLong)};
  }
  std::pair<at::Tensor, decode::Seq2SeqState> decode_step(const at::Tensor& token,
                                                          decode::Seq2SeqState state) const override {
    at::Tensor logits = net_.ptr()->step(token, state.tensors);
    state.position = state.position + 1;
    return {std::move(logits), std::move(state)};
  }
  at::Tensor forward(const at::Tensor& source, const SequenceLayout& source_layout, const at::Tensor& target,
                     const SequenceLayout&, AttentionRecorder* = nullptr) const override {
    Cache cache = net_.ptr()->make_cache(source, source_layout);
    std::vector<at::Tensor> logits;
    for (int64_t t = 0; t < target.size(1); ++t) logits.push_back(net_.ptr()->step(target.select(1, t), cache));
    return at::stack(logits, 1);
  }
  int64_t max_len() const override { return 100; }

 private:
  GruNet net_;
};

struct Sources {
  at::Tensor tokens = at::tensor({4, 5, 6, 7, 8, 0, 5, 0, 0}, at::kLong).view({3, 3});
  SequenceLayout layout = SequenceLayout::padded({3, 2, 1}, 3);
};

// The log-probability that teacher forcing gives a hypothesis.
double forced_log_probability(const GruTranslator& model, const Sources& sources, int64_t sentence,
                              const decode::Hypothesis& hypothesis) {
  std::vector<int64_t> target = {kTokens.bos}, label = hypothesis.tokens;
  target.insert(target.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
  label.push_back(kTokens.eos);
  if (!hypothesis.finished) target.pop_back(), label.pop_back();
  const at::Tensor in = at::tensor(target, at::kLong).unsqueeze(0);
  const auto length = sources.layout.host_lengths()[static_cast<size_t>(sentence)];
  const at::Tensor logits = model.forward(sources.tokens.narrow(0, sentence, 1), SequenceLayout::padded({length}, 3),
                                          in, SequenceLayout::full(in));
  const at::Tensor labels = at::tensor(label, at::kLong).unsqueeze(1);
  return at::log_softmax(logits[0], -1).gather(1, labels).sum().item<double>();
}

}  // namespace

TEST_CASE("recurrent decoders go through the search: every hypothesis has its teacher-forced probability") {
  const at::NoGradGuard no_grad;
  const Sources sources;
  for (const bool attends : {false, true}) {
    torch::manual_seed(4);
    const GruTranslator model(attends);
    for (const int64_t beam : {1, 3, 8}) {
      const auto found =
          decode::search(model, sources.tokens, sources.layout, kTokens, {.beam = beam, .n_best = beam, .max_len = 6});
      REQUIRE(found.size() == 3);
      for (int64_t i = 0; i < 3; ++i) {
        REQUIRE_FALSE(found[static_cast<size_t>(i)].empty());
        for (const auto& hypothesis : found[static_cast<size_t>(i)]) {
          INFO("attends " << attends << ", beam " << beam << ", sentence " << i);
          // A state that had been reordered wrongly would show here.
          CHECK(hypothesis.log_probability ==
                Approx(forced_log_probability(model, sources, i, hypothesis)).margin(1e-4));
        }
      }
    }
  }
}

TEST_CASE("a recurrent state is reordered like any other, and a wide beam finds nothing worse") {
  const at::NoGradGuard no_grad;
  const Sources sources;
  torch::manual_seed(5);
  const GruTranslator model(true);
  auto state = model.encode(sources.tokens, sources.layout, 4);
  state = model.decode_step(at::full({3}, kTokens.bos, at::kLong), std::move(state)).second;
  const auto chosen = state.select(at::tensor({2, 0, 0, 1}, at::kLong));
  const at::Tensor token = at::tensor({4, 5, 6}, at::kLong);
  const auto [all, after] = model.decode_step(token.index_select(0, at::tensor({2, 0, 0, 1}, at::kLong)), chosen);
  const auto [own, unused] = model.decode_step(token, std::move(state));
  CHECK(max_difference(all, own.index_select(0, at::tensor({2, 0, 0, 1}, at::kLong))) < 1e-6);
  CHECK(after.next_position() == 2);

  const auto best = [&](int64_t beam) {
    return decode::search(model, sources.tokens, sources.layout, kTokens,
                          {.beam = beam, .length_penalty = 0, .max_len = 5})[0][0]
        .score;
  };
  CHECK(best(400) >= best(1) - 1e-6);
}
