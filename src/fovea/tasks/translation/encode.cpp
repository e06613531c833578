#include "fovea/tasks/translation/encode.h"

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::translation {
namespace {

/// How many tokens there is room for before `<eos>`.
int64_t most_tokens(int64_t num_steps) {
  if (num_steps < 1) fail_usage("num_steps: expected 1 or more, found {}", num_steps);
  return num_steps - 1;
}

/// Cuts to `most` ids and adds `<eos>`; true if ids were lost.
bool end_sequence(std::vector<int64_t>& ids, int64_t most, int64_t eos) {
  const bool is_cut = static_cast<int64_t>(ids.size()) > most;
  if (is_cut) ids.resize(static_cast<size_t>(most));
  ids.push_back(eos);
  return is_cut;
}

}  // namespace

void learn_from(const std::vector<Pair>& pairs, const LengthOptions& length, data::TokenizerLearner& source,
                data::TokenizerLearner& target) {
  const int64_t most = most_tokens(length.num_steps);
  for (const Pair& pair : pairs) {
    const int64_t longest = std::max(source.read(pair.source), target.read(pair.target));
    if (longest > most && length.too_long == TooLong::kDrop) continue;
    source.keep(most);
    target.keep(most);
  }
}

EncodedCorpus encode_pairs(const std::vector<Pair>& pairs, const data::Tokenizer& source, const data::Tokenizer& target,
                           const LengthOptions& length) {
  const int64_t most = most_tokens(length.num_steps);
  EncodedCorpus corpus;
  corpus.pairs.reserve(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    EncodedPair encoded{source.encode(pairs[i].source), target.encode(pairs[i].target)};
    const bool is_source_cut = end_sequence(encoded.source, most, source.eos());
    const bool is_target_cut = end_sequence(encoded.target, most, target.eos());
    if (is_source_cut || is_target_cut) {
      if (length.too_long == TooLong::kDrop) {
        ++corpus.dropped;
        continue;
      }
      ++corpus.truncated;
    }
    corpus.pairs.push_back(std::move(encoded));
    corpus.raw.push_back(i);
  }
  return corpus;
}

void check_some_left(const EncodedCorpus& corpus, const LengthOptions& length) {
  if (corpus.dropped == 0 || !corpus.pairs.empty()) return;
  fail_usage(
      "expected pairs of at most num_steps = {} tokens (<eos> included), found all {} longer; raise num_steps or "
      "choose "
      "too_long: truncate",
      length.num_steps, corpus.dropped);
}

std::vector<int64_t> encode_source(std::string_view text, const data::Tokenizer& tokenizer, int64_t num_steps,
                                   bool* is_truncated) {
  std::vector<int64_t> ids = tokenizer.encode(text);
  const bool is_cut = !ids.empty() && end_sequence(ids, most_tokens(num_steps), tokenizer.eos());
  if (is_truncated != nullptr) *is_truncated = is_cut;
  return ids;
}

}  // namespace fovea::translation
