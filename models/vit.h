#pragma once

#include "fovea/config/fields.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/nn/vit.h"
#include "fovea/train/module.h"

namespace fovea::models {

/// `model: {name: vit}`. The defaults are those of d2l 11.8.
struct ViTConfig : config::Section {
  int64_t patch_size = 16;
  std::optional<int64_t> patch_width;
  int64_t num_hiddens = 512;
  int64_t mlp_num_hiddens = 2048;
  int64_t num_heads = 8;
  int64_t num_blks = 2;
  double emb_dropout = 0.1;
  double blk_dropout = 0.1;
  double pos_embedding_std = 1.0;
  bool use_bias = false;
  std::string attention = "flash";
  double label_smoothing = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// The network with its loss: cross-entropy over images, with label smoothing in training, and between two labels
/// where a batch was mixed (mixup). Validation measures the accuracy too.
class ViT : public fovea::train::Module, public classification::Classifier {
 public:
  /// Throws a usage Error, naming both sizes, when the patches do not cut the images without a remainder.
  ViT(const ViTConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  train::LossTerms training_step(const data::Batch& batch) override;
  train::LossTerms validation_step(const data::Batch& batch) override;
  std::vector<int64_t> loss_counts(const data::Batch& batch) const override { return {batch.examples}; }
  /// Weight decay for matrices only: not for biases, norms, the class token and the positions.
  std::vector<train::ParameterGroup> parameter_groups() override;
  std::vector<std::string> measures() const override { return {"loss", "accuracy"}; }
  classification::Classifier* classifier() override { return this; }

  at::Tensor logits(const at::Tensor& image, nn::AttentionRecorder* recorder = nullptr) override {
    return network_->forward(image, {}, recorder);
  }

  nn::ViT vit() { return network_; }

 private:
  double label_smoothing_;
  nn::ViT network_{nullptr};
};

const train::ModelEntry& vit_entry();

}  // namespace fovea::models
