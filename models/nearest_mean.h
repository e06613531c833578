#pragma once

#include "fovea/config/fields.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/tasks/classification/images/spec.h"
#include "fovea/train/module.h"

namespace fovea::models {

/// `model: {name: nearest_mean}`. Nothing to set.
using NearestMeanConfig = config::EmptySection;

/// Sums of the images of each class. It has no parameters: it learns by looking at each example once.
class NearestMeanImpl : public torch::nn::Module {
 public:
  NearestMeanImpl(int64_t num_classes, int64_t num_pixels);
  /// Adds examples: image (batch, channels, height, width), label int64 (batch).
  void see(const at::Tensor& image, const at::Tensor& label);
  /// Minus the squared distance to each class's mean: (batch, num_classes). A class that was never seen has the lowest
  /// finite number.
  at::Tensor forward(const at::Tensor& image);

 private:
  at::Tensor sums_;    // float64 (num_classes, num_pixels)
  at::Tensor counts_;  // float64 (num_classes)
};
TORCH_MODULE(NearestMean);

/// The class whose mean image is nearest: the simple baseline beside every classifier.
class NearestMeanClassifier : public train::Module, public classification::Classifier {
 public:
  NearestMeanClassifier(const NearestMeanConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  /// Looks at the batch; its term counts the examples that were wrong before that.
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override;
  train::LossTerms validation_step(const data::Batch& batch) override;
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t) const override { return {batch.examples}; }
  static std::vector<train::Measure> measured() { return {train::loss_measure(), train::accuracy_measure()}; }
  std::vector<train::Measure> measures() const override { return measured(); }

  at::Tensor logits(const data::Batch& batch, nn::AttentionRecorder* = nullptr) const override {
    return network_.ptr()->forward(batch.tensor("image"));
  }

 private:
  NearestMean network_;
};

train::ModelEntry nearest_mean_entry();

}  // namespace fovea::models
