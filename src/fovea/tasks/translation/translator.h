#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/progress.h"
#include "fovea/decode/search.h"
#include "fovea/tasks/translation/assets.h"

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

/// How to translate: the flags of `fovea translate`, and the struct of the library.
struct TranslatorOptions : config::Section {
  decode::SearchOptions search;    // its max_len is set from the next one
  std::optional<int64_t> max_len;  // unset: the longest target of the training data
  int64_t batch_size = 64;

  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  /// The fields that evaluation takes too: all but n_best.
  void search_fields(config::Fields& f);
};

/// Text in, text out: tokenising, batching by length, searching, and putting the results in order again.
class Translator {
 public:
  /// The model must be in evaluation mode and on `device`; all references must outlive the translator.
  /// Throws Error for search options that the model cannot meet.
  Translator(const decode::Seq2Seq& model, const TranslationAssets& assets, at::Device device,
             const TranslatorOptions& options);

  /// One translation per sentence; a blank sentence has an empty one.
  std::vector<Translation> translate(const std::vector<std::string>& sentences, Progress* progress = nullptr) const;

  /// What translate() makes of `sentences`, the best candidate only. `progress` shows how far it is.
  std::vector<std::string> best(const std::vector<std::string>& sentences, Progress* progress = nullptr) const;
  int64_t num_steps() const { return assets_.spec().num_steps; }
  const TranslatorOptions& options() const { return options_; }

 private:
  const decode::Seq2Seq& model_;
  const TranslationAssets& assets_;
  at::Device device_;
  TranslatorOptions options_;
};

}  // namespace fovea::translation
