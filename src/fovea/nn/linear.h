#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "fovea/core/enum_names.h"

namespace fovea::nn {

/// The library that multiplies matrices on the CPU. MKL leaves AVX-512 unused on processors that are not Intel's;
/// oneDNN, which LibTorch carries too, is up to twice as fast there. It needs a fifth of a millisecond for each new
/// shape.
enum class MatmulLibrary { kAuto, kMkl, kOneDnn };

constexpr auto enum_names(MatmulLibrary) {
  return std::to_array<EnumName<MatmulLibrary>>(
      {{MatmulLibrary::kAuto, "auto"}, {MatmulLibrary::kMkl, "mkl"}, {MatmulLibrary::kOneDnn, "onednn"}});
}

/// Sets the library of all layers from now on. kAuto takes oneDNN where it pays. The processor alone decides that,
/// never a measurement, so that a run gives the same numbers each time. Throws a usage Error for kOneDnn where this
/// LibTorch comes without it.
void set_matmul_library(MatmulLibrary library);

/// The library of large products: "MKL" or "oneDNN".
std::string matmul_library();

/// x (..., in) -> x weight^T + bias (..., out): torch's linear by the faster library. Other dtypes than float32, other
/// devices, autocast and traced graphs take torch's own.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

/// torch::nn::Linear, through the function above.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) { return linear(x, weight, bias); }
};
TORCH_MODULE(Linear);

}  // namespace fovea::nn
