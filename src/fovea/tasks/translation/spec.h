#pragma once

#include <cstdint>

#include "fovea/data/batch.h"
#include "fovea/data/data_spec.h"
#include "fovea/decode/special_tokens.h"

namespace fovea::translation {

/// What a model must know of pairs of sentences to be built.
struct TranslationSpec : data::DataSpec {
  static constexpr const char* kKind = "sentence pairs";

  int64_t source_vocab_size = 0;
  int64_t target_vocab_size = 0;
  int64_t num_steps = 0;         // the longest sequence, <eos> counted
  decode::SpecialTokens target;  // ids on the target side

  const char* task() const override { return "translation"; }
  const char* kind() const override { return kKind; }
};

/// d2l's four arrays of a translation batch.
struct TranslationBatch {
  const at::Tensor& source;  // int64 (batch, source steps), padded
  const at::Tensor& target;  // int64 (batch, target steps): <bos> and the label without its last token
  const at::Tensor& label;   // int64 (batch, target steps): what is to be predicted
  const nn::SequenceLayout& source_layout;
  const nn::SequenceLayout& target_layout;  // of `target` and `label` alike

  explicit TranslationBatch(const data::Batch& batch)
      : source(batch.tensor("source")),
        target(batch.tensor("target")),
        label(batch.tensor("label")),
        source_layout(batch.layout("source")),
        target_layout(batch.layout("target")) {}
};

}  // namespace fovea::translation
