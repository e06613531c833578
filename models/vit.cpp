#include "models/vit.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "models/attention_settings.h"

namespace fovea::models {
namespace {

// In terms of the configuration; nn::PatchEmbedding would name neither keys nor both sides.
void check_patches(const ViTConfig& c, const classification::ImageSpec& spec) {
  const int64_t height = c.patch_size, width = c.patch_width.value_or(c.patch_size);
  if (height >= 1 && width >= 1 && spec.height % height == 0 && spec.width % width == 0) return;
  fail_usage(
      "{}: patches of {} x {} do not cut images of {} x {} without a remainder; each side of a patch must divide that "
      "side of the image",
      c.patch_width ? "model.patch_size, model.patch_width" : "model.patch_size", height, width, spec.height,
      spec.width);
}

nn::ViTOptions options(const ViTConfig& c, const classification::ImageSpec& spec) {
  return {.image = {.channels = spec.channels,
                    .image_height = spec.height,
                    .image_width = spec.width,
                    .patch_height = c.patch_size,
                    .patch_width = c.patch_width.value_or(c.patch_size)},
          .num_blks = c.num_blks,
          .block = {.num_hiddens = c.num_hiddens,
                    .mlp_num_hiddens = c.mlp_num_hiddens,
                    .num_heads = c.num_heads,
                    .dropout = c.blk_dropout,
                    .use_bias = c.use_bias,
                    .attention = attention_path(c.attention)},
          .emb_dropout = c.emb_dropout,
          .num_classes = spec.num_classes,
          .pos_embedding_std = c.pos_embedding_std};
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& label, at::Reduction::Reduction reduction,
                         double label_smoothing) {
  return at::cross_entropy_loss(logits, label, {}, reduction, /*ignore_index=*/-100, label_smoothing);
}

}  // namespace

void ViTConfig::fields(config::Fields& f) {
  // Without limits: whatever does not cut the images is refused with them, once they are known.
  f("patch_size", patch_size, "height of a patch in pixels, and its width; must divide the image's");
  f("patch_width", patch_width, "width of a patch where it is not its height");
  f("num_hiddens", num_hiddens, "width of embeddings and of every layer", config::range(1, 65536));
  f("mlp_num_hiddens", mlp_num_hiddens, "width inside the dense layers of a block", config::range(1, 1048576));
  f("num_heads", num_heads, "attention heads; must divide num_hiddens", config::range(1, 1024));
  f("num_blks", num_blks, "blocks", config::range(1, 1000));
  f("emb_dropout", emb_dropout, "share of the embeddings set to 0 in training", config::half_open(0, 1));
  f("blk_dropout", blk_dropout, "share of activations and attention weights in blocks set to 0 in training",
    config::half_open(0, 1));
  f("pos_embedding_std", pos_embedding_std,
    "standard deviation of the positions before training; the book's is 1, that of Dosovitskiy et al. 0.02",
    config::at_least(0));
  f("use_bias", use_bias, "biases in the attention's projections");
  attention_field(f, attention);
  f("label_smoothing", label_smoothing, "share of the target spread over all classes, in training",
    config::half_open(0, 1));
}

void ViTConfig::check(const config::Checker& c) const {
  check_heads(c, num_hiddens, num_heads);
}

ViT::ViT(const ViTConfig& config, const classification::ImageSpec& spec) : label_smoothing_(config.label_smoothing) {
  check_patches(config, spec);
  network_ = nn::ViT(options(config, spec));
  nn::assign_sites(*network_);
}

train::LossTerms ViT::training_step(const data::Batch& batch) {
  const classification::ImageBatch b(batch);
  const at::Tensor logits = network_->forward(b.image);  // (batch, num_classes)
  if (b.share == nullptr) {
    return {{"loss", cross_entropy(logits, b.label, at::Reduction::Sum, label_smoothing_), batch.examples}};
  }
  // Of an image that is a mixture, the loss is the same mixture (Zhang et al., "mixup", 2018).
  const at::Tensor own = cross_entropy(logits, b.label, at::Reduction::None, label_smoothing_);
  const at::Tensor other = cross_entropy(logits, *b.mixed_label, at::Reduction::None, label_smoothing_);
  return {{"loss", at::lerp(other, own, *b.share).sum(), batch.examples}};
}

train::LossTerms ViT::validation_step(const data::Batch& batch) {
  const classification::ImageBatch b(batch);
  const at::Tensor logits = network_->forward(b.image);
  return {{"loss", cross_entropy(logits, b.label, at::Reduction::Sum, 0.0), batch.examples},
          {"accuracy", logits.argmax(1).eq(b.label).sum(), batch.examples}};
}

std::vector<train::ParameterGroup> ViT::parameter_groups() {
  train::ParameterGroup decayed, others{.names = {}, .weight_decay = false};
  for (const auto& [name, tensor] : train::named_parameters(network())) {
    const bool is_matrix = tensor.dim() >= 2 && name != "cls_token" && name != "pos_embedding";
    (is_matrix ? decayed : others).names.push_back(name);
  }
  return {decayed, others};
}

const train::ModelEntry& vit_entry() {
  static const train::ModelEntry entry{
      .named = {"vit", "vision Transformer that classifies images", [] { return std::make_shared<ViTConfig>(); }},
      .chapter = "11.8",
      .make = [](const config::Section& section, const data::DataSpec& spec) -> std::unique_ptr<fovea::train::Module> {
        const auto* images = std::get_if<classification::ImageSpec>(&spec);
        if (images == nullptr) fail_usage("model.name: vit needs data of labelled images");
        return std::make_unique<ViT>(dynamic_cast<const ViTConfig&>(section), *images);
      }};
  return entry;
}

}  // namespace fovea::models
