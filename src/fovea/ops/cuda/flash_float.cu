#include "fovea/ops/cuda/flash_float.cuh"

#include "fovea/ops/cuda/launch.cuh"

namespace fovea::ops::cuda {

template __global__ void flash_float_kernel<false>(const FlashParams);
template __global__ void flash_float_kernel<true>(const FlashParams);

int launch_float_forward(const FlashParams& p, Stream stream) {
  return launch(flash_float_kernel<false>, float_forward_launch(p), p, stream);
}

int launch_float_backward(const FlashParams& p, Stream stream) {
  return launch(flash_float_kernel<true>, float_backward_launch(p), p, stream);
}

}  // namespace fovea::ops::cuda
