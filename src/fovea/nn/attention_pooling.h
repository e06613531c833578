#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "fovea/core/enum_names.h"
#include "fovea/nn/attention.h"

/// Attention pooling by distance (Nadaraya 1964, Watson 1964; d2l 11.2): a query looks at the keys that are near it.
namespace fovea::nn {

/// How the weight falls with the distance u: exp(-u^2 / 2), 1 within 1, 1 everywhere, max(0, 1 - u). The spelling of
/// the last is the book's.
enum class Kernel { kGaussian, kBoxcar, kConstant, kEpanechikov };

constexpr auto enum_names(Kernel) {
  return std::to_array<EnumName<Kernel>>({{Kernel::kGaussian, "gaussian"},
                                          {Kernel::kBoxcar, "boxcar"},
                                          {Kernel::kConstant, "constant"},
                                          {Kernel::kEpanechikov, "epanechikov"}});
}

/// Whether the kernel's width can be learnt: whether its weights change smoothly with it.
constexpr bool has_gradient(Kernel kernel) {
  return kernel == Kernel::kGaussian || kernel == Kernel::kEpanechikov;
}

/// The weights of keys at squared distances u^2 (..., keys): not negative, they sum to 1 over the last dimension.
/// `allowed`: bool of that shape, which keys count; undefined for all. Where no key has a weight above 0 (a boxcar far
/// from every key), all allowed keys have the same.
at::Tensor kernel_weights(Kernel kernel, const at::Tensor& squared_distances, const at::Tensor& allowed = {});

struct AttentionPoolingOptions {
  Kernel kernel = Kernel::kGaussian;
  double bandwidth = 1.0;
  /// The parametric form: a parameter `w` multiplies the distance, in place of 1 / bandwidth.
  bool learn_width = false;
};

/// The weighted mean of the values, by the distance between query and key, divided by the bandwidth or times w.
class AttentionPoolingImpl : public torch::nn::Module, public Placed {
 public:
  /// Throws Error for a bandwidth that is not above 0, and for a kernel whose width cannot be learnt.
  explicit AttentionPoolingImpl(const AttentionPoolingOptions& options);

  /// queries (queries, features), keys (keys, features), values (keys, targets); returns (queries, targets).
  /// `leave_out`: int64 (queries), the key that each query may not see, its own in training; undefined for none.
  /// Weights are recorded as (1, 1, queries, keys).
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const at::Tensor& leave_out = {}, AttentionRecorder* recorder = nullptr);

  void set_path(const std::string& path) override { record_name_ = path; }

 private:
  AttentionPoolingOptions options_;
  at::Tensor w_;  // (1), as the book's; undefined where the width is not learnt
  std::string record_name_;
};
TORCH_MODULE(AttentionPooling);

}  // namespace fovea::nn
