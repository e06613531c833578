#include "models/cct.h"

#include <torch/torch.h>

#include "models/shared_fields.h"

namespace fovea::models {
namespace {

nn::CCTOptions sized(const CCTConfig& c, const classification::ImageSpec& spec) {
  nn::CCTOptions options = c.net;
  options.channels = spec.channels;
  options.image_height = spec.height;
  options.image_width = spec.width;
  options.num_classes = spec.num_classes;
  return options;
}

}  // namespace

void CCTConfig::fields(config::Fields& f) {
  auto& block = net.block;
  f("num_convs", net.num_convs, "convolutions before the blocks; each halves the sides of the image",
    config::range(1, 16));
  f("kernel_size", net.kernel_size, "sides of their kernels; odd", config::range(1, 31));
  width_fields(f, block.num_hiddens, "mlp_num_hiddens", block.mlp_num_hiddens,
               "width inside the dense layers of a block", block.num_heads);
  num_blks_field(f, net.num_blks, "blocks");
  token_positions_field(f, net.positions);
  f("emb_dropout", net.emb_dropout, "share of the tokens' values set to 0 in training", config::half_open(0, 1));
  f("blk_dropout", block.dropout, "share of activations and attention weights in blocks set to 0 in training",
    config::half_open(0, 1));
  stochastic_depth_field(f, block.stochastic_depth);
  layer_scale_field(f, block.layer_scale);
  use_bias_field(f, block.use_bias);
  attention_field(f, block.attention);
  classifier.fields(f);
}

void CCTConfig::check(const config::Checker& c) const {
  check_heads(c, net.block.num_hiddens, net.block.num_heads);
  if (net.kernel_size % 2 == 0) c.fail("kernel_size", "expected an odd number, got {}", net.kernel_size);
}

CCT::CCT(const CCTConfig& config, const classification::ImageSpec& spec)
    : ImageClassifier(config.classifier), network_(sized(config, spec)) {
  nn::assign_paths(*network_);
}

std::vector<train::LabelledAxis> CCT::labelled_axes() const {
  return {{"head.weight", 0, "classes"}, {"head.bias", 0, "classes"}};
}

train::ModelEntry cct_entry() {
  return train::model_entry<CCT, CCTConfig, classification::ImageSpec>(
      "cct", "", "compact convolutional Transformer that classifies images");
}

}  // namespace fovea::models
