#pragma once

#include "fovea/config/fields.h"
#include "fovea/nn/vit.h"
#include "models/image_classifier.h"

namespace fovea::models {

/// `model: {name: vit}`. The defaults are those of d2l 11.8.
struct ViTConfig : config::Section {
  nn::ViTOptions net;  // images and classes are the data's
  bool lsa = false;
  ImageClassifierOptions classifier;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// `model: {name: deit}`: a ViT with a distillation token, and the settings of its authors where they are not sizes.
struct DeiTConfig : ViTConfig {
  DeiTConfig();
};

class ViT : public ImageClassifier {
 public:
  /// Throws a usage Error, naming both sizes, when the patches do not cut the images without a remainder.
  ViT(const ViTConfig& config, const classification::ImageSpec& spec);

  /// Throws a usage Error where there is a distillation token and no teacher.
  void prepare_training(const train::Entries& entries, const data::DataAssets& assets, at::Device device) override;
  torch::nn::Module& network() override { return *network_; }
  std::vector<train::LabelledAxis> labelled_axes() const override;
  nn::ViT vit() { return network_; }
  std::optional<classification::TokenGrid> token_grid() const override;

 protected:
  at::Tensor forward(const at::Tensor& image, nn::AttentionRecorder* recorder) const override {
    return network_.ptr()->forward(image, {}, recorder);
  }
  HeadLogits training_logits(const at::Tensor& image) const override;
  bool is_decayed(const std::string& name) const override {
    return name != "cls_token" && name != "dist_token" && !name.starts_with("pos_");
  }

 private:
  bool has_distillation_token_;
  nn::ViT network_{nullptr};
};

train::ModelEntry vit_entry();
train::ModelEntry deit_entry();

}  // namespace fovea::models
