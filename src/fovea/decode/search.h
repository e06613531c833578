#pragma once

#include <cstdint>
#include <vector>

#include "fovea/decode/seq2seq.h"
#include "fovea/decode/special_tokens.h"

namespace fovea::decode {

inline constexpr int64_t kMaxBeam = 4096;

struct SearchOptions {
  int64_t beam = 1;              // 1 is greedy search
  double length_penalty = 0.75;  // alpha of d2l 10.8: hypotheses are ranked by log-probability / length^alpha
  int64_t n_best = 1;            // at most beam
  int64_t max_len = 0;           // tokens generated at most, <eos> among them
};

struct Hypothesis {
  std::vector<int64_t> tokens;  // without <bos> and <eos>
  double log_probability = 0;   // sum over its tokens, <eos> too
  double score = 0;             // log_probability / length^alpha, where length counts <eos>
  bool finished = false;        // ended with <eos>; else cut at max_len
};

/// Throws a usage Error for a beam not in [1, kMaxBeam], n_best not in [1, beam], max_len < 1, a length penalty below 0
/// or not finite.
void check_search(const SearchOptions& options);

/// For each sentence of a padded batch the n best hypotheses, best first. Ranks finished and cut ones alike.
///
/// Each sentence keeps `beam` live hypotheses; one that ends among the `beam` best continuations is finished. The
/// search for a sentence ends when no live one can enter the n best any more. With beam 1 this is greedy search, which
/// takes the first end; with a beam that holds everything it is exhaustive. <pad>, <bos> and <unk> are never
/// generated: none of them is a translation of anything. A
/// finished sentence leaves the batch. A source of length 0 gives one empty hypothesis. Throws as check_search does.
std::vector<std::vector<Hypothesis>> search(const Seq2Seq& model, const at::Tensor& source,
                                            const nn::SequenceLayout& layout, const decode::SpecialTokens& special,
                                            const SearchOptions& options);

}  // namespace fovea::decode
