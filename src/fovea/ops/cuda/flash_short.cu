#include "fovea/ops/cuda/flash_short.cuh"

#include "fovea/ops/cuda/launch.cuh"

namespace fovea::ops::cuda {

template __global__ void flash_short_kernel<false>(const FlashParams);
template __global__ void flash_short_kernel<true>(const FlashParams);

int launch_short_forward(const FlashParams& p, Stream stream) {
  return launch(flash_short_kernel<false>, short_launch(p, ShortTile::kForwardBytes), p, stream);
}

int launch_short_backward(const FlashParams& p, Stream stream) {
  return launch(flash_short_kernel<true>, short_launch(p, ShortTile::kBackwardBytes), p, stream);
}

int launch_flash_forward(const FlashParams& p, Stream stream) {
  if (p.is_float32) return launch_float_forward(p, stream);
  return is_short(p) ? launch_short_forward(p, stream) : launch_tiled_forward(p, stream);
}

int launch_flash_backward(const FlashParams& p, Stream stream) {
  // The short kernel computes delta itself, and leaves the bias's gradient to the tiled one.
  if (is_short(p) && p.grad_bias == nullptr) return launch_short_backward(p, stream);
  const int status = launch_delta(p, stream);
  if (status != cudaSuccess) return status;
  return p.is_float32 ? launch_float_backward(p, stream) : launch_tiled_backward(p, stream);
}

}  // namespace fovea::ops::cuda
