#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "fovea/nn/sequence_layout.h"

namespace fovea::data {

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

}  // namespace fovea::data
