#include "models/translator_module.h"

#include "models/cross_entropy.h"

namespace fovea::models {

std::vector<int64_t> TranslatorModule::loss_counts(const data::Batch& batch, int64_t) const {
  const int64_t count = batch.layout("target").total();
  return label_smoothing_ > 0 ? std::vector<int64_t>{count, count} : std::vector<int64_t>{count};
}

std::pair<at::Tensor, at::Tensor> TranslatorModule::valid_logits(const data::Batch& batch) const {
  const translation::TranslationBatch b(batch);
  // What counts is decided by the lengths, not by a token's id: a padding token in a text would be no padding.
  at::Tensor labels = b.target_layout.pack(b.label);
  if (!packed_) return {b.target_layout.pack(forward(b.source, b.source_layout, b.target, b.target_layout)), labels};
  return {forward(b.source_layout.pack(b.source), b.source_layout.as_packed(), b.target_layout.pack(b.target),
                  b.target_layout.as_packed()),
          labels};
}

train::LossTerms TranslatorModule::training_step(const data::Batch& batch, int64_t) {
  const auto [logits, labels] = valid_logits(batch);
  return cross_entropy_terms(logits, labels, label_smoothing_);
}

train::LossTerms TranslatorModule::validation_step(const data::Batch& batch) {
  const auto [logits, labels] = valid_logits(batch);
  return cross_entropy_terms(logits, labels, 0.0);
}

std::vector<train::LabelledAxis> TranslatorModule::labelled_axes() const {
  return {{"encoder.embedding.weight", 0, "source"},
          {"decoder.embedding.weight", 0, "target"},
          {"decoder.dense.weight", 0, "target"},
          {"decoder.dense.bias", 0, "target"}};
}

}  // namespace fovea::models
