#pragma once

#include "fovea/nn/cct.h"
#include "models/image_classifier.h"

namespace fovea::models {

/// `model: {name: cct}`. The defaults are CCT-2/3x2.
struct CCTConfig : config::Section {
  nn::CCTOptions net;  // images and classes are the data's
  ImageClassifierOptions classifier;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

class CCT : public ImageClassifier {
 public:
  CCT(const CCTConfig& config, const classification::ImageSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  std::vector<train::LabelledAxis> labelled_axes() const override;
  std::optional<classification::TokenGrid> token_grid() const override {
    return classification::TokenGrid{.own = {}, .rows = network_.ptr()->rows(), .columns = network_.ptr()->columns()};
  }

 protected:
  at::Tensor forward(const at::Tensor& image, nn::AttentionRecorder* recorder) const override {
    return network_.ptr()->forward(image, recorder);
  }
  bool is_decayed(const std::string& name) const override { return !name.starts_with("pos_"); }

 private:
  nn::CCT network_;
};

train::ModelEntry cct_entry();

}  // namespace fovea::models
