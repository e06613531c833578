#pragma once

#include "fovea/decode/seq2seq.h"
#include "fovea/tasks/translation/spec.h"
#include "fovea/train/module.h"

namespace fovea::models {

/// What all translators have in common: the cross-entropy over valid target tokens, with label smoothing, and the names
/// of the parameters that have a row for each token. A network of this kind has `encoder.embedding`,
/// `decoder.embedding` and `decoder.dense`, as the book's have.
class TranslatorModule : public train::Module, public decode::Seq2Seq {
 public:
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override;
  train::LossTerms validation_step(const data::Batch& batch) override;
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t turn) const override;
  static std::vector<train::Measure> measured() { return {train::loss_measure(), train::perplexity_measure()}; }
  std::vector<train::Measure> measures() const override { return measured(); }
  std::vector<train::LabelledAxis> labelled_axes() const override;

 protected:
  /// `layout`: of what forward() gets in training.
  TranslatorModule(nn::LayoutKind layout, double label_smoothing)
      : packed_(layout == nn::LayoutKind::kPacked), label_smoothing_(label_smoothing) {}

 private:
  // Logits of the valid target tokens (total, target_vocab_size) and what they should be (total).
  std::pair<at::Tensor, at::Tensor> valid_logits(const data::Batch& batch) const;

  bool packed_;
  double label_smoothing_;
};

}  // namespace fovea::models
