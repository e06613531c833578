#include "fovea/ops/cuda/flash_forward.cuh"

#include "fovea/ops/cuda/launch.cuh"

namespace fovea::ops::cuda {

template __global__ void flash_forward_kernel<64>(const FlashParams);
template __global__ void flash_forward_kernel<128>(const FlashParams);
template __global__ void flash_forward_kernel<256>(const FlashParams);

int launch_tiled_forward(const FlashParams& p, Stream stream) {
  const int dim = p.head_dim > p.value_dim ? p.head_dim : p.value_dim;
  if (dim <= 64) return launch(flash_forward_kernel<64>, forward_launch<64>(p), p, stream);
  if (dim <= 128) return launch(flash_forward_kernel<128>, forward_launch<128>(p), p, stream);
  return launch(flash_forward_kernel<256>, forward_launch<256>(p), p, stream);
}

}  // namespace fovea::ops::cuda
