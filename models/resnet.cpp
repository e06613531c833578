#include "models/resnet.h"

#include <torch/torch.h>

namespace fovea::models {
namespace {

nn::ResNetOptions sized(const ResNetConfig& c, const classification::ImageSpec& spec) {
  nn::ResNetOptions options = c.net;
  options.image_channels = spec.channels;
  options.num_classes = spec.num_classes;
  return options;
}

}  // namespace

void ResNetConfig::fields(config::Fields& f) {
  f("stem", net.stem,
    "what comes first: large is the book's and leaves a sixteenth of the pixels, small leaves them all");
  f("channels", net.channels, "channels of each group of blocks; all but the first halve the sides",
    config::range(1, 65536));
  f("num_residuals", net.num_residuals, "residual blocks in each group", config::range(1, 1000));
  f("use_bias", net.use_bias, "biases in the convolutions, as the book has them; He et al. have none");
  f("shortcut_norm", net.shortcut_norm,
    "a batch norm behind the 1 x 1 convolutions, as in He et al.; the book has none");
  classifier.fields(f);
}

ResNet::ResNet(const ResNetConfig& config, const classification::ImageSpec& spec)
    : ImageClassifier(config.classifier), network_(sized(config, spec)) {}

std::vector<train::LabelledAxis> ResNet::labelled_axes() const {
  return {{"net.last.2.weight", 0, "classes"}, {"net.last.2.bias", 0, "classes"}};
}

train::ModelEntry resnet_entry() {
  return train::model_entry<ResNet, ResNetConfig, classification::ImageSpec>(
      "resnet", "8.6", "residual network that classifies images, without attention");
}

}  // namespace fovea::models
