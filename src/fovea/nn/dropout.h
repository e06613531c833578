#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "fovea/nn/paths.h"
#include "fovea/nn/sequence_layout.h"

namespace fovea::nn {

/// Dropout by counter (ops/dropout.h): which elements fall depends on the seed, the step, the module's place in the
/// network and the element's logical index; not on padding, packing or threads. Identity in evaluation mode.
class DropoutImpl : public torch::nn::Module, public Placed {
 public:
  /// Throws Error unless 0 <= p < 1.
  explicit DropoutImpl(double p);

  /// `x`: activations in the given layout, (batch, steps, channels) or (total, channels).
  at::Tensor forward(const at::Tensor& x, const SequenceLayout& layout);
  /// `x`: (batch, heads, queries, keys), (batch, steps, channels) or (rows, channels).
  at::Tensor forward(const at::Tensor& x);

  bool active() const { return is_training() && p_ > 0; }
  /// Ops that drop within take these two to draw as forward would. They are 0 and undefined when dropout is not active.
  double active_p() const { return active() ? p_ : 0.0; }
  at::Tensor active_key() const;
  /// Gives the layer draws of its own: random numbers of another path are independent.
  void set_path(const std::string& path) override;
  void pretty_print(std::ostream& stream) const override;

 private:
  double p_;
  int64_t site_ = 0;
};
TORCH_MODULE(Dropout);

}  // namespace fovea::nn
