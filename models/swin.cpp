#include "models/swin.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "models/shared_fields.h"

namespace fovea::models {
namespace {

nn::SwinOptions sized(const SwinConfig& c, const classification::ImageSpec& spec) {
  nn::SwinOptions options = c.net;
  options.image.channels = spec.channels;
  options.image.image_height = spec.height;
  options.image.image_width = spec.width;
  options.num_classes = spec.num_classes;
  return options;
}

nn::Swin make_swin(const SwinConfig& c, const classification::ImageSpec& spec) {
  try {
    return nn::Swin(sized(c, spec));
  } catch (const Error& e) {  // what the images' size decides
    fail_usage("model.patch_size, model.window: {} (images of {} x {}, patches of {})", e.what(), spec.height,
               spec.width, c.net.image.patch_height);
  }
}

}  // namespace

void SwinConfig::fields(config::Fields& f) {
  f("patch_size", net.image.patch_height, "sides of a patch in pixels; must divide the image's",
    config::range(1, 4096));
  f("window", net.window, "sides of a window in tokens; must divide the rows and columns of tokens of each stage",
    config::range(1, 64));
  f("num_hiddens", net.num_hiddens, "width of the first stage; each further one is twice as wide",
    config::range(1, 65536));
  f("mlp_ratio", net.mlp_ratio, "how many times wider the dense layers of a block are inside", config::range(1, 64));
  f("num_heads", net.num_heads, "attention heads in each stage; must divide its width", config::range(1, 1024),
    config::at_least_items(1));
  f("num_blks", net.num_blks, "blocks in each stage; every second one has shifted windows", config::range(1, 1000),
    config::at_least_items(1));
  f("emb_dropout", net.emb_dropout, "share of the embeddings set to 0 in training", config::half_open(0, 1));
  f("blk_dropout", net.dropout, "share of activations and attention weights in blocks set to 0 in training",
    config::half_open(0, 1));
  stochastic_depth_field(f, net.stochastic_depth);
  attention_field(f, net.attention);
  classifier.fields(f);
}

void SwinConfig::check(const config::Checker& c) const {
  if (net.num_blks.size() != net.num_heads.size()) {
    c.fail({"num_blks", "num_heads"}, "expected one number for each stage in both, got {} and {}", net.num_blks.size(),
           net.num_heads.size());
  }
  for (size_t s = 0; s < net.num_heads.size(); ++s) {
    const int64_t width = net.num_hiddens << std::min<size_t>(s, 40);
    if (width % net.num_heads[s] != 0) {
      c.fail({"num_heads", "num_hiddens"}, "the width of stage {}, {}, must be divisible by its heads, got {}", s + 1,
             width, net.num_heads[s]);
    }
  }
}

Swin::Swin(const SwinConfig& config, const classification::ImageSpec& spec)
    : ImageClassifier(config.classifier), network_(make_swin(config, spec)) {
  nn::assign_paths(*network_);
}

bool Swin::is_decayed(const std::string& name) const {
  return name.find("relative_position_bias") == std::string::npos;
}

std::vector<train::LabelledAxis> Swin::labelled_axes() const {
  return {{"head.weight", 0, "classes"}, {"head.bias", 0, "classes"}};
}

train::ModelEntry swin_entry() {
  return train::model_entry<Swin, SwinConfig, classification::ImageSpec>(
      "swin", "", "Transformer with shifted windows that classifies images");
}

}  // namespace fovea::models
