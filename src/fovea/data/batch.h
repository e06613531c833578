#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "fovea/nn/sequence_layout.h"

namespace fovea {

/// Some examples as tensors, by name, so that a new kind of data needs no new container. Models read it through a
/// typed view such as TranslationBatch.
struct Batch {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, nn::SequenceLayout> layouts;
  int64_t examples = 0;
  int64_t items = 0;  // what the speed is counted in: valid target tokens, images

  /// Throws Error naming what is there.
  const at::Tensor& tensor(const std::string& name) const;
  const nn::SequenceLayout& layout(const std::string& name) const;
  Batch to(at::Device device) const;
};

/// d2l's four arrays of a translation batch.
struct TranslationBatch {
  const at::Tensor& source;  // int64 (batch, source steps), padded
  const at::Tensor& target;  // int64 (batch, target steps): <bos> and the label without its last token
  const at::Tensor& label;   // int64 (batch, target steps): what is to be predicted
  const nn::SequenceLayout& source_layout;
  const nn::SequenceLayout& target_layout;  // of `target` and `label` alike

  explicit TranslationBatch(const Batch& batch)
      : source(batch.tensor("source")),
        target(batch.tensor("target")),
        label(batch.tensor("label")),
        source_layout(batch.layout("source")),
        target_layout(batch.layout("target")) {}
};

/// A batch of labelled images.
struct ImageBatch {
  const at::Tensor& image;  // float32 (batch, channels, height, width), normalised
  const at::Tensor& label;  // int64 (batch)
  // Of a batch that was mixed (mixup), else null: image = share * image of `label` + (1 - share) * that of
  // `mixed_label`.
  const at::Tensor* mixed_label = nullptr;  // int64 (batch)
  const at::Tensor* share = nullptr;        // float32 (batch)

  explicit ImageBatch(const Batch& batch) : image(batch.tensor("image")), label(batch.tensor("label")) {
    if (batch.tensors.count("share") == 0) return;
    mixed_label = &batch.tensor("mixed_label");
    share = &batch.tensor("share");
  }
};

}  // namespace fovea
