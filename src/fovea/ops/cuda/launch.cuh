#pragma once

#include <cuda_runtime.h>

#include "fovea/ops/cuda/flash_launch.h"

namespace fovea::ops::cuda {

template <typename Kernel>
int launch(Kernel* kernel, LaunchShape shape, const FlashParams& p, Stream stream) {
  if (shape.blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  if (shape.blocks == 0) return cudaSuccess;
  // More than 48 KiB must be asked for, on each device anew; the call is cheap.
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
  if (status != cudaSuccess) return status;
  kernel<<<static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
           static_cast<size_t>(shape.shared_bytes), static_cast<cudaStream_t>(stream)>>>(p);
  return cudaGetLastError();
}

}  // namespace fovea::ops::cuda
