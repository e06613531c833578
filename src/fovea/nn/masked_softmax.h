#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/nn/attention_mask.h"

namespace fovea::nn {

/// Softmax over the last axis of the scores that `mask` allows (d2l 11.3), after adding the mask's bias.
/// `scores`: (batch, heads, queries, keys); returns the same shape. Masked weights are exactly 0; a row with no
/// allowed key is all 0 and has gradient 0 (d2l makes it uniform).
at::Tensor masked_softmax(const at::Tensor& scores, const AttentionMask& mask);

/// d2l's own signature: `scores` (batch, queries, keys), `valid_lens` undefined, (batch) or (batch, queries).
/// Throws Error for other shapes.
at::Tensor masked_softmax(const at::Tensor& scores, const at::Tensor& valid_lens);

}  // namespace fovea::nn
