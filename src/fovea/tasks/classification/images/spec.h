#pragma once

#include "fovea/data/batch.h"
#include "fovea/tasks/classification/spec.h"

namespace fovea::classification {

/// What a model must know of labelled images to be built.
struct ImageSpec : ClassificationSpec {
  static constexpr const char* kKind = "labelled images";

  int64_t channels = 1, height = 0, width = 0;  // as they reach the model, resized

  ImageSpec() = default;
  ImageSpec(int64_t channels_, int64_t height_, int64_t width_, int64_t num_classes_)
      : channels(channels_), height(height_), width(width_) {
    num_classes = num_classes_;
  }
  const char* kind() const override { return kKind; }
};

/// A batch of labelled images.
struct ImageBatch {
  const at::Tensor& image;  // float32 (batch, channels, height, width), normalised
  const at::Tensor& label;  // int64 (batch)
  // Of a batch that was mixed (mixup), else null: image = share * image of `label` + (1 - share) * that of
  // `mixed_label`.
  const at::Tensor* mixed_label = nullptr;  // int64 (batch)
  const at::Tensor* share = nullptr;        // float32 (batch)

  explicit ImageBatch(const data::Batch& batch) : image(batch.tensor("image")), label(batch.tensor("label")) {
    if (batch.tensors.count("share") == 0) return;
    mixed_label = &batch.tensor("mixed_label");
    share = &batch.tensor("share");
  }
};

}  // namespace fovea::classification
