#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::metrics {

/// d2l's BLEU of one sentence (section 10.7), from 0 to 1: exp(min(0, 1 - len_label / len_pred))
/// times the product of p_n^(1/2^n) for n = 1 ... min(k, len_pred), p_n being the matched share of
/// the prediction's n-grams. 0 where either side has no tokens (d2l's own would count the empty
/// text as one token). For comparisons with the book only: what is reported of a model is
/// corpus_bleu(). Error unless k >= 1.
double bleu(const std::vector<std::string>& pred_tokens, const std::vector<std::string>& label_tokens, int64_t k);

struct BleuOptions {
  bool lowercase = false;  // compare lower-cased texts, for models that lower-case: `case:lc`
  bool unify = false;      // compare what data::unify_characters() gives, for models that read it: `chars:unified`
};

/// What corpus_bleu() found; lengths and counts are in 13a tokens, index 0 of an array is for
/// unigrams.
struct BleuScore {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // 0 to 100, smoothed
  double brevity_penalty = 0;
  int64_t hypothesis_length = 0;
  int64_t reference_length = 0;
  std::array<int64_t, 4> counts{};  // n-grams of the hypotheses that are in their references
  std::array<int64_t, 4> totals{};  // n-grams of the hypotheses
  std::string signature;            // nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:fovea-0.1.0
  std::string warning;              // why the score may mean little; empty where all is well

  /// As sacreBLEU prints it:
  /// "BLEU = 45.12 70.1/50.2/40.3/30.4 (BP = 1.000 ratio = 1.012 hyp_len = 170 ref_len = 168)".
  std::string format() const;
};

/// Corpus BLEU (Papineni et al., 2002) of raw texts, one reference each, equal to that of sacreBLEU
/// 2.6 with its defaults: 13a tokens, exponential smoothing, n-grams up to 4. An empty or blank
/// line counts as one without tokens. `chars:unified` is in the signature if that changed a text, so that there is no
/// difference where there is none. References whose words have no spaces between them (data::lacks_spaces) are scored,
/// and warned of. Error: no lines, another number of hypotheses than of
/// references, invalid UTF-8 where texts are lower-cased or unified.
BleuScore corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                      const BleuOptions& options = {});

/// The tokens of mteval-v13a, as sacreBLEU's `13a` makes them.
std::vector<std::string> tokenize_13a(std::string_view text);

}  // namespace fovea::metrics
