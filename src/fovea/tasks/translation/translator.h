#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/tasks/translation/translation.h"
#include "fovea/decode/search.h"

namespace fovea::translation {

struct Translation {
  struct Candidate {
    std::string text;
    double log_probability = 0;
    double score = 0;
    bool finished = true;
  };
  std::vector<Candidate> candidates;  // n best, best first; never empty
  bool is_cut = false;                // the source was longer than the model takes
};

struct TranslatorOptions {
  SearchOptions search;            // its max_len is set from the next one
  std::optional<int64_t> max_len;  // unset: the longest target of the training data
  int64_t batch_size = 64;
};

/// Text in, text out: tokenising, batching by length, searching, and putting the results in order again.
class Translator {
 public:
  /// The model must be in evaluation mode and on `device`; all references must outlive the translator.
  /// Throws Error for search options that the model cannot meet.
  Translator(Seq2Seq& model, const TranslationAssets& assets, at::Device device, const TranslatorOptions& options);

  /// One translation per sentence; a blank sentence has an empty one.
  std::vector<Translation> translate(const std::vector<std::string>& sentences) const;

  /// What translate() makes of `sentences`, the best candidate only.
  std::vector<std::string> best(const std::vector<std::string>& sentences) const;

 private:
  Seq2Seq& model_;
  const TranslationAssets& assets_;
  at::Device device_;
  TranslatorOptions options_;
  decode::SpecialTokens special_;
};

}  // namespace fovea::translation
