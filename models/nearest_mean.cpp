#include "models/nearest_mean.h"

#include <torch/torch.h>

#include <limits>

#include "fovea/tasks/classification/validation.h"

namespace fovea::models {

NearestMeanImpl::NearestMeanImpl(int64_t num_classes, int64_t num_pixels) {
  sums_ = register_buffer("sums", at::zeros({num_classes, num_pixels}, at::kDouble));
  counts_ = register_buffer("counts", at::zeros({num_classes}, at::kDouble));
}

void NearestMeanImpl::see(const at::Tensor& image, const at::Tensor& label) {
  const at::NoGradGuard no_grad;
  sums_.index_add_(0, label, image.flatten(1).to(at::kDouble));
  counts_.index_add_(0, label, at::ones_like(label, at::kDouble));
}

at::Tensor NearestMeanImpl::forward(const at::Tensor& image) {
  const at::Tensor means = (sums_ / counts_.clamp_min(1).unsqueeze(1)).to(at::kFloat);  // (num_classes, num_pixels)
  const at::Tensor x = image.flatten(1);                                                // (batch, num_pixels)
  const at::Tensor distances = x.square().sum(1, true) - 2 * x.matmul(means.t()) + means.square().sum(1);
  return at::where(counts_ > 0, -distances, at::full_like(distances, std::numeric_limits<float>::lowest()));
}

NearestMeanClassifier::NearestMeanClassifier(const NearestMeanConfig&, const classification::ImageSpec& spec)
    : network_(spec.num_classes, spec.channels * spec.height * spec.width) {}

train::LossTerms NearestMeanClassifier::training_step(const data::Batch& batch, int64_t) {
  const classification::ImageBatch b(batch);
  const at::Tensor wrong = network_->forward(b.image).argmax(1).ne(b.label).sum();
  network_->see(b.image, b.label);
  return {{"error", wrong, batch.examples}};
}

train::LossTerms NearestMeanClassifier::validation_step(const data::Batch& batch) {
  const classification::ImageBatch b(batch);
  return classification::validation_terms(network_->forward(b.image), b.label);
}

train::ModelEntry nearest_mean_entry() {
  return train::model_entry<NearestMeanClassifier, NearestMeanConfig, classification::ImageSpec>(
      "nearest_mean", "", "the class whose mean image is nearest: a baseline without parameters");
}

}  // namespace fovea::models
