#pragma once

#include "fovea/config/fields.h"
#include "fovea/nn/vit.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/tasks/classification/images/spec.h"
#include "fovea/train/module.h"
#include "models/distillation.h"

namespace fovea::models {

/// `model: {name: vit}`. The defaults are those of d2l 11.8.
struct ViTConfig : config::Section {
  nn::ViTOptions net;  // images and classes are the data's
  double label_smoothing = 0.0;
  DistillationOptions distillation;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// The network with its loss: cross-entropy over images, with label smoothing in training, and between two labels
/// where a batch was mixed (mixup); with a teacher, the distance to what it says too. Validation measures the accuracy.
class ViT : public train::Module, public classification::Classifier {
 public:
  /// Throws a usage Error, naming both sizes, when the patches do not cut the images without a remainder.
  ViT(const ViTConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override;
  train::LossTerms validation_step(const data::Batch& batch) override;
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t turn) const override;
  /// Weight decay for matrices only: not for biases, norms, the class token and the positions.
  std::vector<train::ParameterGroup> parameter_groups() override;
  std::vector<train::Measure> measures() const override { return {train::loss_measure(), train::accuracy_measure()}; }
  std::vector<train::LabelledAxis> labelled_axes() const override;
  void prepare_training(const train::Entries& entries, const data::DataAssets& assets, at::Device device) override;
  std::vector<torch::nn::Module*> frozen() override;

  at::Tensor logits(const data::Batch& batch, nn::AttentionRecorder* recorder = nullptr) const override {
    return network_.ptr()->forward(batch.tensor("image"), {}, recorder);
  }

  nn::ViT vit() { return network_; }

 private:
  double label_smoothing_;
  DistillationOptions distillation_;
  std::unique_ptr<Teacher> teacher_;  // in training, where one is asked for
  nn::ViT network_{nullptr};
};

train::ModelEntry vit_entry();

}  // namespace fovea::models
