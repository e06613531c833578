#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace fovea::ops {

/// Refuses an input that carries a tangent (torch.func.jvp, torch.autograd.forward_ad). The ops have backward
/// derivatives only, and a tangent that is dropped is a derivative of zero. Call it whether or not a gradient is asked
/// for. Throws c10::Error naming the op and the input.
inline void refuse_tangent(const char* op, const char* input, const at::Tensor& tensor) {
  constexpr uint64_t kLevel = 0;  // PyTorch has one level of forward differentiation
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.defined() || !tensor._fw_grad(kLevel).defined(), op, ": ", input,
                              " has a tangent, but the op has no forward-mode derivative (torch.func.jvp); use "
                              "backward() or torch.autograd.grad");
}

}  // namespace fovea::ops
