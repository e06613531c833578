#include "models/image_classifier.h"

#include <torch/torch.h>

#include "fovea/tasks/classification/validation.h"
#include "models/cross_entropy.h"
#include "models/shared_fields.h"

namespace fovea::models {
namespace {

// Of each example.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& label, double label_smoothing) {
  return at::cross_entropy_loss(logits, label, {}, at::Reduction::None, /*ignore_index=*/-100, label_smoothing);
}

}  // namespace

void ImageClassifierOptions::fields(config::Fields& f) {
  label_smoothing_field(f, label_smoothing, "all classes");
  distillation.fields(f);
}

std::vector<int64_t> ImageClassifier::loss_counts(const data::Batch& batch, int64_t) const {
  const bool is_mixed = classification::ImageBatch(batch).share != nullptr;
  const size_t labels = !is_mixed && options_.label_smoothing > 0 ? 2 : 1;  // terms
  return std::vector<int64_t>(labels + (teacher_ != nullptr ? 1 : 0), batch.examples);
}

train::LossTerms ImageClassifier::training_step(const data::Batch& batch, int64_t) {
  const classification::ImageBatch b(batch);
  const HeadLogits heads = teacher_ == nullptr ? HeadLogits{forward(b.image, nullptr), {}} : training_logits(b.image);
  const at::Tensor& logits = heads.labels;
  train::LossTerms terms;
  if (b.share == nullptr) {
    terms = cross_entropy_terms(logits, b.label, options_.label_smoothing);
  } else {
    // Of an image that is a mixture, the loss is the same mixture (Zhang et al., "mixup", 2018).
    const at::Tensor own = cross_entropy(logits, b.label, options_.label_smoothing);
    const at::Tensor other = cross_entropy(logits, *b.mixed_label, options_.label_smoothing);
    terms = {{"mixed_loss", at::lerp(other, own, *b.share).sum(), batch.examples}};
  }
  if (teacher_ == nullptr) return terms;
  const double share = options_.distillation.teacher_share;
  const at::Tensor distilled = terms[0].sum * (1 - share) + teacher_->loss(heads.teacher, batch) * share;
  for (auto& term : terms) {
    term.sum = term.sum.detach();
    term.trains = false;
  }
  terms.insert(terms.begin(), {"distilled_loss", distilled, batch.examples});
  return terms;
}

train::LossTerms ImageClassifier::validation_step(const data::Batch& batch) {
  const classification::ImageBatch b(batch);
  return classification::validation_terms(forward(b.image, nullptr), b.label);
}

void ImageClassifier::prepare_training(const train::Entries& entries, const data::DataAssets& assets,
                                       at::Device device) {
  if (options_.distillation.teacher)
    teacher_ = std::make_unique<Teacher>(options_.distillation, entries, assets, device);
}

std::vector<torch::nn::Module*> ImageClassifier::frozen() {
  if (teacher_ == nullptr) return {};
  return {&teacher_->network()};
}

std::vector<train::ParameterGroup> ImageClassifier::parameter_groups() {
  train::ParameterGroup decayed, others{.names = {}, .weight_decay = false};
  for (const auto& [name, tensor] : train::named_parameters(network())) {
    const bool is_matrix = tensor.dim() >= 2 && is_decayed(name);
    (is_matrix ? decayed : others).names.push_back(name);
  }
  return {decayed, others};
}

}  // namespace fovea::models
