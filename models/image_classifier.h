#pragma once

#include <memory>

#include "fovea/config/fields.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/tasks/classification/images/spec.h"
#include "fovea/train/module.h"
#include "models/distillation.h"

namespace fovea::models {

/// The settings that all classifiers of images have.
struct ImageClassifierOptions {
  double label_smoothing = 0.0;
  DistillationOptions distillation;
  void fields(config::Fields& f);
};

/// What a network's heads say in training, (batch, num_classes) each: to be held against the labels, and against a
/// teacher. As a rule the same.
struct HeadLogits {
  at::Tensor labels, teacher;
};

/// What all classifiers of images have in common: cross-entropy, with label smoothing in training, and between two
/// labels where a batch was mixed (mixup); with a teacher, the distance to what it says too. Validation measures the
/// accuracy. A model of this kind says what its network gives for a batch of images.
class ImageClassifier : public train::Module, public classification::Classifier {
 public:
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override;
  train::LossTerms validation_step(const data::Batch& batch) override;
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t turn) const override;
  /// Weight decay for matrices and convolutions only: not for biases, norms, and what `is_decayed` excludes.
  std::vector<train::ParameterGroup> parameter_groups() override;
  static std::vector<train::Measure> measured() { return {train::loss_measure(), train::accuracy_measure()}; }
  std::vector<train::Measure> measures() const override { return measured(); }
  void prepare_training(const train::Entries& entries, const data::DataAssets& assets, at::Device device) override;
  std::vector<torch::nn::Module*> frozen() override;
  at::Tensor logits(const data::Batch& batch, nn::AttentionRecorder* recorder = nullptr) const override {
    return forward(batch.tensor("image"), recorder);
  }

 protected:
  explicit ImageClassifier(const ImageClassifierOptions& options) : options_(options) {}

  /// image (batch, channels, height, width) -> (batch, num_classes)
  virtual at::Tensor forward(const at::Tensor& image, nn::AttentionRecorder* recorder) const = 0;
  /// The same for images that are trained on, for networks with a head of its own for what a teacher says.
  virtual HeadLogits training_logits(const at::Tensor& image) const {
    const at::Tensor logits = forward(image, nullptr);
    return {logits, logits};
  }
  /// Whether a parameter of two or more dimensions is a matrix, and not a position or a token.
  virtual bool is_decayed(const std::string& /*name*/) const { return true; }

 private:
  ImageClassifierOptions options_;
  std::unique_ptr<Teacher> teacher_;  // in training, where one is asked for
};

}  // namespace fovea::models
