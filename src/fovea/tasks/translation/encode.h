#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/data/text.h"
#include "fovea/data/vocabulary.h"
#include "fovea/tasks/translation/corpus.h"

namespace fovea::translation {

/// What happens to a pair of which a side, with its `<eos>`, is longer than num_steps.
enum class TooLong {
  kDrop,      // the pair is left out and counted
  kTruncate,  // the side keeps its first num_steps - 1 tokens and its `<eos>`
};

constexpr auto enum_names(TooLong) {
  return std::to_array<EnumName<TooLong>>({{TooLong::kDrop, "drop"}, {TooLong::kTruncate, "truncate"}});
}

struct LengthOptions {
  int64_t num_steps = 0;  // tokens in a sequence at most, `<eos>` included; at least 1
  TooLong too_long = TooLong::kDrop;
};

using Tokens = std::vector<std::string>;

/// A corpus as tokens, without reserved ones; what vocabularies are counted on. As in d2l, that is
/// after truncation.
struct TokenizedCorpus {
  std::vector<Tokens> sources,
      targets;                        // sources[i] belongs to targets[i]; no side has num_steps tokens or more
  std::vector<int64_t> pair_indices;  // of the raw pairs they come from, ascending
  int64_t dropped = 0;                // pairs too long
  int64_t truncated = 0;              // pairs of which a side was cut

  int64_t size() const { return static_cast<int64_t>(sources.size()); }
};

/// Throws Error (kUsage) for num_steps < 1, and where every pair is too long: no data must not look
/// like success.
TokenizedCorpus tokenize_pairs(const std::vector<Pair>& pairs, const data::TextOptions& text,
                               const LengthOptions& length);

/// One example: ids that end in `<eos>`, unpadded, at most num_steps of them. The decoder's input
/// is `<bos>` and the target without its last id; its label is the target.
struct EncodedPair {
  std::vector<int64_t> source, target;

  bool operator==(const EncodedPair&) const = default;
};

EncodedPair encode_pair(const Tokens& source, const Tokens& target, const data::Vocabulary& source_vocabulary,
                        const data::Vocabulary& target_vocabulary);

std::vector<EncodedPair> encode_pairs(const TokenizedCorpus& corpus, const data::Vocabulary& source_vocabulary,
                                      const data::Vocabulary& target_vocabulary);

/// One input to translate: its ids and `<eos>`, cut to num_steps whatever its length.
/// `is_truncated`, if given, tells whether tokens were lost.
std::vector<int64_t> encode_source(Tokens tokens, const data::Vocabulary& vocabulary, int64_t num_steps,
                                   bool* is_truncated = nullptr);

}  // namespace fovea::translation
