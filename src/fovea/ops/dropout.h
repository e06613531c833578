#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace fovea::ops {

/// Dropout whose draws depend on *what* an element is, not on where it lies or which thread computes it.
///
/// Shapes of `input` and the logical index (sequence, head, row, column) of an element:
///   (batch, heads, queries, keys)   attention weights
///   (batch, steps, channels)        padded activations; head = 0
///   (total, channels) + `offsets`   the same activations packed; offsets is int32 (batch + 1) on the CPU
///   (rows, channels)                one row per sequence; step = head = 0
/// The padded and the packed form of a batch drop the same elements; padding, tiling and the number of threads do
/// not change a draw.
///
/// `rng` is an int64 CPU tensor {seed, step, site}; see nn/random.h for who fills it. Each element is kept with
/// probability 1 - p and scaled by 1 / (1 - p). p = 0 returns the input, p = 1 returns zeros.
/// Random bits are Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
///
/// float32, float64, bfloat16, float16. Differentiable any number of times (the op is linear in its input), backward
/// only: a forward-mode derivative (torch.func.jvp) throws. Throws c10::Error for p outside [0, 1], another shape, or
/// an `rng` that is not three int64 numbers.
at::Tensor dropout(const at::Tensor& input, const at::Tensor& rng, double p,
                   const std::optional<at::Tensor>& offsets = std::nullopt);

/// The same function written with ATen integer arithmetic: slow, on any device. It is the reference in tests and
/// the path of devices that have no kernel of their own.
at::Tensor dropout_reference(const at::Tensor& input, const at::Tensor& rng, double p,
                             const std::optional<at::Tensor>& offsets = std::nullopt);

}  // namespace fovea::ops
