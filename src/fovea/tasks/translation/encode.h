#pragma once

#include <cstdint>
#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/data/tokenizer.h"
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

/// Shows the pairs to the learners of both sides. As in d2l, they learn from what is left after dropping and
/// truncating. Throws a usage Error for num_steps < 1.
void learn_from(const std::vector<Pair>& pairs, const LengthOptions& length, data::TokenizerLearner& source,
                data::TokenizerLearner& target);

/// One example: ids that end in `<eos>`, unpadded, at most num_steps of them. The decoder's input
/// is `<bos>` and the target without its last id; its label is the target.
struct EncodedPair {
  std::vector<int64_t> source, target;

  bool operator==(const EncodedPair&) const = default;
};

/// A corpus as ids.
struct EncodedCorpus {
  std::vector<EncodedPair> pairs;  // in the order of the raw ones
  std::vector<size_t> raw;         // for each of them the index of the raw one
  int64_t dropped = 0;             // pairs too long
  int64_t truncated = 0;           // pairs of which a side was cut
};

/// Throws a usage Error for num_steps < 1.
EncodedCorpus encode_pairs(const std::vector<Pair>& pairs, const data::Tokenizer& source, const data::Tokenizer& target,
                           const LengthOptions& length);
/// Throws a usage Error where every pair was too long: no data must not look like success.
void check_some_left(const EncodedCorpus& corpus, const LengthOptions& length);

/// One input to translate: its ids and `<eos>`, cut to num_steps whatever its length; nothing for a blank text.
/// `is_truncated`, if given, tells whether tokens were lost.
std::vector<int64_t> encode_source(std::string_view text, const data::Tokenizer& tokenizer, int64_t num_steps,
                                   bool* is_truncated = nullptr);

}  // namespace fovea::translation
