#pragma once

#include <string>

#include "fovea/data/text.h"
#include "fovea/metrics/bleu.h"

namespace fovea::translation {

inline constexpr int64_t kBookBleu = 2;  // d2l prints bleu with k=2

/// d2l's bleu of one sentence, over tokens of the text pipeline.
inline double book_bleu(const std::string& hypothesis, const std::string& reference, const data::TextOptions& text) {
  return metrics::bleu(data::to_tokens(hypothesis, text), data::to_tokens(reference, text), kBookBleu);
}

}  // namespace fovea::translation
