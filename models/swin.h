#pragma once

#include "fovea/nn/swin.h"
#include "models/image_classifier.h"

namespace fovea::models {

/// `model: {name: swin}`. The defaults are for images of 28 x 28.
struct SwinConfig : config::Section {
  nn::SwinOptions net;  // images and classes are the data's
  ImageClassifierOptions classifier;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

class Swin : public ImageClassifier {
 public:
  /// Throws a usage Error, naming the settings, when patches, windows or merges do not fit the images.
  Swin(const SwinConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  std::vector<train::LabelledAxis> labelled_axes() const override;

 protected:
  at::Tensor forward(const at::Tensor& image, nn::AttentionRecorder* recorder) const override {
    return network_.ptr()->forward(image, recorder);
  }
  bool is_decayed(const std::string& name) const override;

 private:
  nn::Swin network_{nullptr};
};

train::ModelEntry swin_entry();

}  // namespace fovea::models
