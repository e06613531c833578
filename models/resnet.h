#pragma once

#include "fovea/nn/resnet.h"
#include "models/image_classifier.h"

namespace fovea::models {

/// `model: {name: resnet}`. The defaults are ResNet-18 (d2l 8.6).
struct ResNetConfig : config::Section {
  nn::ResNetOptions net;  // images and classes are the data's
  ImageClassifierOptions classifier;
  void fields(config::Fields& f) override;
};

class ResNet : public ImageClassifier {
 public:
  ResNet(const ResNetConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  std::vector<train::LabelledAxis> labelled_axes() const override;

 protected:
  at::Tensor forward(const at::Tensor& image, nn::AttentionRecorder*) const override {
    return network_.ptr()->forward(image);
  }

 private:
  nn::ResNet network_;
};

train::ModelEntry resnet_entry();

}  // namespace fovea::models
