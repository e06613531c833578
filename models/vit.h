#pragma once

#include "fovea/config/fields.h"
#include "fovea/nn/vit.h"
#include "models/image_classifier.h"

namespace fovea::models {

/// `model: {name: vit}`. The defaults are those of d2l 11.8.
struct ViTConfig : config::Section {
  nn::ViTOptions net;  // images and classes are the data's
  ImageClassifierOptions classifier;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

class ViT : public ImageClassifier {
 public:
  /// Throws a usage Error, naming both sizes, when the patches do not cut the images without a remainder.
  ViT(const ViTConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  std::vector<train::LabelledAxis> labelled_axes() const override;
  nn::ViT vit() { return network_; }

 protected:
  at::Tensor forward(const at::Tensor& image, nn::AttentionRecorder* recorder) const override {
    return network_.ptr()->forward(image, {}, recorder);
  }
  bool is_decayed(const std::string& name) const override { return name != "cls_token" && name != "pos_embedding"; }

 private:
  nn::ViT network_{nullptr};
};

train::ModelEntry vit_entry();

}  // namespace fovea::models
