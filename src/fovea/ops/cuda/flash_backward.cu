#include "fovea/ops/cuda/flash_backward.cuh"

#include "fovea/ops/cuda/launch.cuh"

namespace fovea::ops::cuda {

template __global__ void flash_delta_kernel<kDeltaRows>(const FlashParams);
template __global__ void flash_backward_kernel<64>(const FlashParams);
template __global__ void flash_backward_kernel<128>(const FlashParams);
template __global__ void flash_backward_kernel<256>(const FlashParams);

int launch_delta(const FlashParams& p, Stream stream) {
  return launch(flash_delta_kernel<kDeltaRows>, delta_launch(p), p, stream);
}

int launch_tiled_backward(const FlashParams& p, Stream stream) {
  const int dim = p.head_dim > p.value_dim ? p.head_dim : p.value_dim;
  if (dim <= 64) return launch(flash_backward_kernel<64>, backward_launch<64>(p), p, stream);
  if (dim <= 128) return launch(flash_backward_kernel<128>, backward_launch<128>(p), p, stream);
  return launch(flash_backward_kernel<256>, backward_launch<256>(p), p, stream);
}

}  // namespace fovea::ops::cuda
