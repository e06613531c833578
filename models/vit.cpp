#include "models/vit.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "models/shared_fields.h"

namespace fovea::models {
namespace {

// In terms of the configuration; nn::PatchEmbedding would name neither keys nor both sides.
void check_patches(const ViTConfig& c, const classification::ImageSpec& spec) {
  const auto& image = c.net.image;
  const int64_t height = image.patch_height, width = image.patch_width.value_or(height);
  if (height >= 1 && width >= 1 && spec.height % height == 0 && spec.width % width == 0) return;
  fail_usage(
      "{}: patches of {} x {} do not cut images of {} x {} without a remainder; each side of a patch must divide that "
      "side of the image",
      image.patch_width ? "model.patch_size, model.patch_width" : "model.patch_size", height, width, spec.height,
      spec.width);
}

nn::ViTOptions options(const ViTConfig& c, const classification::ImageSpec& spec) {
  nn::ViTOptions options = c.net;
  options.masks_own = options.block.learned_scale = c.lsa;
  options.image.channels = spec.channels;
  options.image.image_height = spec.height;
  options.image.image_width = spec.width;
  options.num_classes = spec.num_classes;
  return options;
}

}  // namespace

void ViTConfig::fields(config::Fields& f) {
  auto& block = net.block;
  // What does not cut the images is refused with them, once they are known.
  f("patch_size", net.image.patch_height, "height of a patch in pixels, and its width; must divide the image's",
    config::at_least(1));
  f("patch_width", net.image.patch_width, "width of a patch where it is not its height", config::at_least(1));
  f("stem", net.stem,
    "how an image becomes tokens: patches are cut and projected; convolutions halve the sides as often as patch_size, "
    "a power of two, asks for");
  if (!net.distillation_token) {
    f("pooling", net.pooling, "what the head reads: a token before the patches, or the mean of all patches");
  }
  width_fields(f, block.num_hiddens, "mlp_num_hiddens", block.mlp_num_hiddens,
               "width inside the dense layers of a block", block.num_heads);
  num_blks_field(f, net.num_blks, "blocks");
  f("emb_dropout", net.emb_dropout, "share of the embeddings set to 0 in training", config::half_open(0, 1));
  f("blk_dropout", block.dropout, "share of activations and attention weights in blocks set to 0 in training",
    config::half_open(0, 1));
  token_positions_field(f, net.positions);
  f("pos_embedding_std", net.pos_embedding_std,
    "standard deviation of learned positions before training; the book's is 1, that of Dosovitskiy et al. 0.02",
    config::at_least(0));
  use_bias_field(f, block.use_bias);
  f("lsa", lsa, "locality self-attention: no token looks at itself, and each head learns the scale of its scores");
  stochastic_depth_field(f, block.stochastic_depth);
  layer_scale_field(f, block.layer_scale);
  attention_field(f, block.attention);
  classifier.fields(f);
}

void ViTConfig::check(const config::Checker& c) const {
  check_heads(c, net.block.num_hiddens, net.block.num_heads);
  const int64_t side = net.image.patch_height;
  if (net.stem != nn::ViTStem::kConvolutions) return;
  if (side < 2 || !std::has_single_bit(static_cast<uint64_t>(side)) || net.image.patch_width.value_or(side) != side) {
    c.fail({"stem", "patch_size"},
           "convolutions halve the sides: expected a patch_size of 2, 4, 8, ... and no other "
           "patch_width, got {}",
           side);
  }
}

DeiTConfig::DeiTConfig() {
  net.distillation_token = true;
  net.pos_embedding_std = 0.02;
  net.block.use_bias = true;
  classifier.distillation.kind = DistillationKind::kHard;
}

ViT::ViT(const ViTConfig& config, const classification::ImageSpec& spec)
    : ImageClassifier(config.classifier), has_distillation_token_(config.net.distillation_token) {
  check_patches(config, spec);
  network_ = nn::ViT(options(config, spec));
  nn::assign_paths(*network_);
}

std::vector<train::LabelledAxis> ViT::labelled_axes() const {
  std::vector<train::LabelledAxis> axes = {{"head.1.weight", 0, "classes"}, {"head.1.bias", 0, "classes"}};
  if (has_distillation_token_)
    axes.insert(axes.end(), {{"head_dist.weight", 0, "classes"}, {"head_dist.bias", 0, "classes"}});
  return axes;
}

std::optional<classification::TokenGrid> ViT::token_grid() const {
  const nn::ViTImpl& vit = *network_;
  classification::TokenGrid grid{.own = {"class", "distillation"}, .rows = vit.rows(), .columns = vit.columns()};
  grid.own.resize(static_cast<size_t>(vit.prefix()));
  return grid;
}

HeadLogits ViT::training_logits(const at::Tensor& image) const {
  const nn::ViTLogits logits = network_.ptr()->forward_heads(image);
  return {logits.labels, logits.distilled.defined() ? logits.distilled : logits.labels};
}

void ViT::prepare_training(const train::Entries& entries, const data::DataAssets& assets, at::Device device) {
  ImageClassifier::prepare_training(entries, assets, device);
  if (has_distillation_token_ && frozen().empty()) {
    fail_usage(
        "model.teacher: deit learns from a trained run; expected its folder, as in model.teacher=runs/teacher, "
        "found none (model.name=vit needs no teacher)");
  }
}

namespace {

// The largest side up to `most` that divides both, so that an image has few patches.
int64_t patch_side(int64_t height, int64_t width, int64_t most) {
  int64_t side = std::max<int64_t>(most, 1);
  while (height % side != 0 || width % side != 0) --side;
  return side;
}

std::vector<train::ProposedSetting> propose_vit(const data::DataSpec& spec, const train::DataAmount& amount) {
  const auto& images = dynamic_cast<const classification::ImageSpec&>(spec);
  const bool is_small = amount.examples < 5000;
  const int64_t heads = is_small ? 2 : 3, hiddens = 32 * heads;
  const int64_t side = patch_side(images.height, images.width, std::max(images.height, images.width) / 7);
  const int64_t epochs = train::epochs_for(amount, is_small ? 3000 : 16'000, 5, 100);
  const int64_t steps = epochs * amount.steps_per_epoch;
  const auto text = [](auto number) { return fmt::format("{}", number); };
  return {
      {"model.name", "vit"},
      {"model.patch_size", text(side),
       fmt::format("pixels; {} an image", counted(images.height / side * (images.width / side), "patch", "patches"))},
      {"model.num_hiddens", text(hiddens), "width, for " + counted(amount.examples, "image")},
      {"model.mlp_num_hiddens", text(2 * hiddens)},
      {"model.num_heads", text(heads)},
      {"model.num_blks", is_small ? "4" : "6", "depth"},
      {"model.emb_dropout", "0"},
      {"model.blk_dropout", is_small ? "0.1" : "0", "more for less data"},
      {"model.pos_embedding_std", "0.02"},
      {"model.label_smoothing", "0.1"},
      {"optimizer.name", "adamw"},
      {"optimizer.learning_rate", "0.002"},
      {"optimizer.weight_decay", "0.05"},
      {"schedule.name", "cosine"},
      {"schedule.warmup_steps", text(std::clamp<int64_t>(steps / 20, 1, 1000)), "of " + counted(steps, "step")},
      {"train.max_epochs", text(epochs)}};
}

}  // namespace

train::ModelEntry vit_entry() {
  auto entry = train::model_entry<ViT, ViTConfig, classification::ImageSpec>(
      "vit", "11.8", "vision Transformer that classifies images");
  entry.propose = propose_vit;
  return entry;
}

train::ModelEntry deit_entry() {
  return train::model_entry<ViT, DeiTConfig, classification::ImageSpec>(
      "deit", "", "vision Transformer with a token that learns from a trained run (DeiT)");
}

}  // namespace fovea::models
