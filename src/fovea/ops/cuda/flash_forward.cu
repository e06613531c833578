#include "fovea/ops/cuda/flash_forward.cuh"

namespace fovea::ops::cuda {
template __global__ void flash_forward_kernel<64>(const FlashParams);
template __global__ void flash_forward_kernel<128>(const FlashParams);
template __global__ void flash_forward_kernel<256>(const FlashParams);
}  // namespace fovea::ops::cuda
