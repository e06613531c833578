#include "fovea/ops/cuda/flash_backward.cuh"

namespace fovea::ops::cuda {
template __global__ void flash_delta_kernel<kDeltaRows>(const FlashParams);
template __global__ void flash_backward_kernel<64>(const FlashParams);
template __global__ void flash_backward_kernel<128>(const FlashParams);
template __global__ void flash_backward_kernel<256>(const FlashParams);
}  // namespace fovea::ops::cuda
