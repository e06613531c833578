#include "fovea/ops/cuda/flash_short.cuh"

namespace fovea::ops::cuda {
template __global__ void flash_short_kernel<false>(const FlashParams);
template __global__ void flash_short_kernel<true>(const FlashParams);
}  // namespace fovea::ops::cuda
