#pragma once

#include "fovea/ops/cuda/flash_params.h"

/// Starts the kernels that fit a problem on a CUDA stream. For code that knows nothing of nvcc.
namespace fovea::ops::cuda {

using Stream = void*;  // cudaStream_t

/// Each returns a cudaError_t; 0 is success. Problems without queries (backward: without queries and keys) or heads
/// must not come here.
int launch_flash_forward(const FlashParams& p, Stream stream);
/// `p.delta` is memory for it to use, as long as lse. Writes grad_bias where it is given.
int launch_flash_backward(const FlashParams& p, Stream stream);

/// The parts of these two, one for each file of kernels.
int launch_tiled_forward(const FlashParams& p, Stream stream);
int launch_tiled_backward(const FlashParams& p, Stream stream);
int launch_short_forward(const FlashParams& p, Stream stream);
int launch_short_backward(const FlashParams& p, Stream stream);
int launch_float_forward(const FlashParams& p, Stream stream);
int launch_float_backward(const FlashParams& p, Stream stream);
int launch_delta(const FlashParams& p, Stream stream);

}  // namespace fovea::ops::cuda
