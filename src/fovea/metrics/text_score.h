#pragma once

#include <string>
#include <vector>

namespace fovea::metrics {

struct TextScoreOptions {
  bool lowercase = false;  // compare lower-cased texts
};

/// How near texts are to their references, as it is printed.
struct TextScore {
  std::string text;     // lines, without the last line's end
  std::string json;     // one object
  std::string warning;  // why the score may mean little; empty where all is well
};

/// Corpus BLEU with its signature (bleu.h). Throws Error as corpus_bleu does.
TextScore score_texts(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                      const TextScoreOptions& options = {});

}  // namespace fovea::metrics
