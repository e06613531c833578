#include "fovea/metrics/text_score.h"

#include <nlohmann/json.hpp>

#include "fovea/metrics/bleu.h"

namespace fovea::metrics {

TextScore score_texts(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                      const TextScoreOptions& options) {
  const BleuScore bleu = corpus_bleu(hypotheses, references, {.lowercase = options.lowercase});
  nlohmann::ordered_json line = {{"bleu", bleu.score},
                                 {"precisions", bleu.precisions},
                                 {"brevity_penalty", bleu.brevity_penalty},
                                 {"hypothesis_length", bleu.hypothesis_length},
                                 {"reference_length", bleu.reference_length},
                                 {"signature", bleu.signature}};
  if (!bleu.warning.empty()) line["warning"] = bleu.warning;
  return {bleu.format() + "\n" + bleu.signature, line.dump(), bleu.warning};
}

}  // namespace fovea::metrics
