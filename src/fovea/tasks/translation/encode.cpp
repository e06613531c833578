#include "fovea/tasks/translation/encode.h"

#include "fovea/core/error.h"

namespace fovea::translation {
namespace {

void check_num_steps(int64_t num_steps) {
  if (num_steps < 1) fail_usage("num_steps: expected 1 or more, found {}", num_steps);
}

/// Leaves room for `<eos>`; true if tokens were lost.
bool cut(Tokens& tokens, int64_t num_steps) {
  const auto limit = static_cast<size_t>(num_steps - 1);
  if (tokens.size() <= limit) return false;
  tokens.resize(limit);
  return true;
}

std::vector<int64_t> encode_with_eos(const Tokens& tokens, const data::Vocabulary& vocabulary) {
  std::vector<int64_t> ids = vocabulary.encode(tokens);
  ids.push_back(vocabulary.eos());
  return ids;
}

}  // namespace

TokenizedCorpus tokenize_pairs(const std::vector<Pair>& pairs, const data::TextOptions& text, const LengthOptions& length) {
  check_num_steps(length.num_steps);
  TokenizedCorpus corpus;
  for (size_t i = 0; i < pairs.size(); ++i) {
    Tokens source = data::to_tokens(pairs[i].source, text);
    Tokens target = data::to_tokens(pairs[i].target, text);
    const bool is_source_cut = cut(source, length.num_steps);
    const bool is_target_cut = cut(target, length.num_steps);
    if (is_source_cut || is_target_cut) {
      if (length.too_long == TooLong::kDrop) {
        ++corpus.dropped;
        continue;
      }
      ++corpus.truncated;
    }
    corpus.sources.push_back(std::move(source));
    corpus.targets.push_back(std::move(target));
    corpus.pair_indices.push_back(static_cast<int64_t>(i));
  }
  if (corpus.dropped > 0 && corpus.sources.empty()) {
    fail_usage(
        "expected pairs of at most num_steps = {} tokens (<eos> included), found all {} longer; "
        "raise "
        "num_steps or choose too_long: truncate",
        length.num_steps, pairs.size());
  }
  return corpus;
}

EncodedPair encode_pair(const Tokens& source, const Tokens& target, const data::Vocabulary& source_vocabulary,
                        const data::Vocabulary& target_vocabulary) {
  return {encode_with_eos(source, source_vocabulary), encode_with_eos(target, target_vocabulary)};
}

std::vector<EncodedPair> encode_pairs(const TokenizedCorpus& corpus, const data::Vocabulary& source_vocabulary,
                                      const data::Vocabulary& target_vocabulary) {
  std::vector<EncodedPair> encoded;
  encoded.reserve(corpus.sources.size());
  for (size_t i = 0; i < corpus.sources.size(); ++i) {
    encoded.push_back(encode_pair(corpus.sources[i], corpus.targets[i], source_vocabulary, target_vocabulary));
  }
  return encoded;
}

std::vector<int64_t> encode_source(Tokens tokens, const data::Vocabulary& vocabulary, int64_t num_steps, bool* is_truncated) {
  check_num_steps(num_steps);
  const bool is_cut = cut(tokens, num_steps);
  if (is_truncated != nullptr) *is_truncated = is_cut;
  return encode_with_eos(tokens, vocabulary);
}

}  // namespace fovea::translation
