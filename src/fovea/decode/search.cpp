#include "fovea/decode/search.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"

namespace fovea::decode {
namespace {

struct Live {
  std::vector<int64_t> tokens;
  double log_probability = 0;
};

// One sentence's search: its live hypotheses are consecutive rows of the model's state.
struct Sentence {
  size_t index = 0;  // in the batch
  std::vector<Live> live;
  std::vector<Hypothesis> done;
};

double normalised(double log_probability, size_t length, double alpha) {
  return log_probability / std::pow(static_cast<double>(std::max<size_t>(1, length)), alpha);
}

void sort_best_first(std::vector<Hypothesis>& hypotheses) {
  std::stable_sort(hypotheses.begin(), hypotheses.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
}

// Whether none of the live hypotheses can enter the n best. A log-probability only falls, and dividing by the
// greatest possible length is the kindest thing that can happen to it.
bool settled(const Sentence& sentence, const SearchOptions& o) {
  if (sentence.live.empty()) return true;
  if (o.beam == 1 && !sentence.done.empty()) return true;  // greedy search takes the first end there is
  if (static_cast<int64_t>(sentence.done.size()) < o.n_best) return false;
  std::vector<double> scores;
  for (const auto& h : sentence.done) scores.push_back(h.score);
  std::nth_element(scores.begin(), scores.begin() + (o.n_best - 1), scores.end(), std::greater<>());
  const auto best = std::max_element(sentence.live.begin(), sentence.live.end(), [](const Live& a, const Live& b) {
    return a.log_probability < b.log_probability;
  });
  return normalised(best->log_probability, static_cast<size_t>(o.max_len), o.length_penalty) <=
         scores[static_cast<size_t>(o.n_best - 1)];
}

struct Continuation {
  int64_t row;  // of the model's state
  int64_t token;
  double log_probability;
};

// The best continuations of each row: enough for any outcome, since a sentence takes at most 2 * beam.
struct Ranked {
  at::Tensor scores, tokens;  // (rows, width) on the CPU, best first
  int64_t width;

  Ranked(const at::Tensor& logits, const decode::SpecialTokens& special, int64_t beam) {
    at::Tensor log_probs = at::log_softmax(logits.to(at::kFloat), -1);  // (rows, vocab)
    for (const int64_t never : {special.pad, special.bos, special.unk}) {
      log_probs.select(1, never).fill_(-std::numeric_limits<float>::infinity());
    }
    width = std::min<int64_t>(2 * beam, log_probs.size(1));
    const auto [values, indices] = log_probs.topk(width);
    scores = values.cpu().contiguous();
    tokens = indices.cpu().contiguous();
  }

  // Of one sentence, whose live hypotheses start at `first_row`; best first, ties by row and rank.
  std::vector<Continuation> of(const Sentence& sentence, int64_t first_row) const {
    std::vector<Continuation> all;
    for (size_t i = 0; i < sentence.live.size(); ++i) {
      const int64_t row = first_row + static_cast<int64_t>(i);
      const float* s = scores.const_data_ptr<float>() + row * width;
      const int64_t* t = tokens.const_data_ptr<int64_t>() + row * width;
      for (int64_t j = 0; j < width && std::isfinite(s[j]); ++j) {
        all.push_back({row, t[j], sentence.live[i].log_probability + s[j]});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Continuation& a, const Continuation& b) {
      return a.log_probability > b.log_probability;
    });
    return all;
  }
};

// Ends some hypotheses of a sentence and keeps up to `beam` others; returns the continuations it goes on with.
std::vector<Continuation> advance(Sentence& sentence, const Ranked& ranked, int64_t first_row, int64_t eos,
                                  const SearchOptions& o) {
  std::vector<Continuation> taken;
  std::vector<Live> next;
  int64_t rank = 0;
  for (const Continuation& c : ranked.of(sentence, first_row)) {
    if (static_cast<int64_t>(next.size()) == o.beam) break;
    const Live& from = sentence.live[static_cast<size_t>(c.row - first_row)];
    if (c.token == eos) {
      // Only among the `beam` best does an end count; further down it is too unlikely to be taken.
      if (rank < o.beam) {
        sentence.done.push_back({from.tokens, c.log_probability,
                                 normalised(c.log_probability, from.tokens.size() + 1, o.length_penalty), true});
      }
    } else {
      next.push_back({from.tokens, c.log_probability});
      next.back().tokens.push_back(c.token);
      taken.push_back(c);
    }
    ++rank;
  }
  sentence.live = std::move(next);
  return taken;
}

// Greedy steps mostly go on with every row where it is: nothing to copy.
bool keeps_all(const std::vector<int64_t>& rows, int64_t count) {
  if (static_cast<int64_t>(rows.size()) != count) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (rows[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

}  // namespace

void check_search(const SearchOptions& o) {
  if (o.beam < 1 || o.beam > kMaxBeam) {
    fail_usage("search: the beam must be in [1, {}], got {}", kMaxBeam, o.beam);
  }
  if (o.n_best < 1 || o.n_best > o.beam) {
    fail_usage("search: n-best must be in [1, beam], got {} with a beam of {}", o.n_best, o.beam);
  }
  if (!std::isfinite(o.length_penalty) || o.length_penalty < 0) {
    fail_usage("search: the length penalty must be a number from 0 on, got {}", o.length_penalty);
  }
  if (o.max_len < 1) fail_usage("search: the greatest length must be at least 1, got {}", o.max_len);
}

std::vector<std::vector<Hypothesis>> search(const Seq2Seq& model, const at::Tensor& source,
                                            const nn::SequenceLayout& layout, const decode::SpecialTokens& special,
                                            const SearchOptions& o) {
  check_search(o);
  const at::NoGradGuard no_grad;
  const int64_t batch = source.size(0);
  std::vector<std::vector<Hypothesis>> results(static_cast<size_t>(batch));
  std::vector<Sentence> sentences;
  for (int64_t i = 0; i < batch; ++i) {
    const auto at = static_cast<size_t>(i);
    if (layout.host_lengths()[at] == 0) {
      results[at].push_back({{}, 0, 0, true});
    } else {
      sentences.push_back({at, {Live{}}, {}});
    }
  }
  if (sentences.empty()) return results;

  Seq2SeqState state = model.encode(source, layout, o.max_len);
  std::vector<int64_t> rows, tokens;
  for (const auto& sentence : sentences) rows.push_back(static_cast<int64_t>(sentence.index));
  if (static_cast<int64_t>(rows.size()) < batch) {
    state = state.select(at::tensor(rows, at::kLong).to(source.device()));
  }
  tokens.assign(rows.size(), special.bos);

  for (int64_t step = 0; step < o.max_len && !sentences.empty(); ++step) {
    auto [logits, next_state] = model.decode_step(at::tensor(tokens, at::kLong).to(source.device()), std::move(state));
    state = std::move(next_state);
    const Ranked ranked(logits, special, o.beam);
    rows.clear();
    tokens.clear();
    int64_t first_row = 0;
    std::vector<Sentence> unsettled;
    for (auto& sentence : sentences) {
      const auto width = static_cast<int64_t>(sentence.live.size());
      const auto taken = advance(sentence, ranked, first_row, special.eos, o);
      first_row += width;
      if (settled(sentence, o)) {
        if (sentence.done.empty())
          fail("search: the model gives no token a finite probability; its weights are damaged");
        sort_best_first(sentence.done);
        results[sentence.index] = std::move(sentence.done);
        continue;
      }
      for (const Continuation& c : taken) {
        rows.push_back(c.row);
        tokens.push_back(c.token);
      }
      unsettled.push_back(std::move(sentence));
    }
    sentences = std::move(unsettled);
    if (!sentences.empty() && !keeps_all(rows, first_row)) {
      state = state.select(at::tensor(rows, at::kLong).to(source.device()));
    }
  }

  for (auto& sentence : sentences) {  // cut at max_len
    for (const auto& live : sentence.live) {
      sentence.done.push_back({live.tokens, live.log_probability,
                               normalised(live.log_probability, live.tokens.size(), o.length_penalty), false});
    }
    sort_best_first(sentence.done);
    results[sentence.index] = std::move(sentence.done);
  }
  for (auto& hypotheses : results) {
    if (static_cast<int64_t>(hypotheses.size()) > o.n_best) hypotheses.resize(static_cast<size_t>(o.n_best));
  }
  return results;
}

}  // namespace fovea::decode
