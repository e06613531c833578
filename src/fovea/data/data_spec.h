#pragma once

#include <cstdint>
#include <variant>

namespace fovea {

/// The token ids that models and decoding must know.
struct SpecialTokens {
  int64_t pad = 0, bos = 0, eos = 0, unk = 0;
};

/// What a model must know of translation data to be built.
struct TranslationSpec {
  int64_t source_vocab_size = 0;
  int64_t target_vocab_size = 0;
  int64_t num_steps = 0;  // the longest sequence, <eos> counted
  SpecialTokens target;   // ids on the target side
};

/// What a model must know of labelled images to be built.
struct ImageSpec {
  int64_t channels = 1, height = 0, width = 0;  // as they reach the model, resized
  int64_t num_classes = 0;
};

/// One alternative for each kind of data.
using DataSpec = std::variant<TranslationSpec, ImageSpec>;

}  // namespace fovea
