#include "fovea/nn/dropout.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "fovea/nn/random.h"
#include "fovea/ops/dropout.h"

namespace fovea::nn {

DropoutImpl::DropoutImpl(double p) : p_(p) {
  if (!(p >= 0.0 && p < 1.0)) fail("dropout: expected 0 <= p < 1, got {}", p);
}

at::Tensor DropoutImpl::forward(const at::Tensor& x, const SequenceLayout& layout) {
  if (!active()) return x;
  if (!layout.is_packed()) return forward(x);
  return ops::dropout(x, random_key(site_), p_, layout.offsets());
}

at::Tensor DropoutImpl::forward(const at::Tensor& x) {
  return active() ? ops::dropout(x, random_key(site_), p_) : x;
}

void DropoutImpl::set_path(const std::string& path) {
  site_ = site_of(path);
}

at::Tensor DropoutImpl::active_key() const {
  return active() ? random_key(site_) : at::Tensor();
}

void DropoutImpl::pretty_print(std::ostream& stream) const {
  stream << "fovea::nn::Dropout(p=" << p_ << ")";
}

}  // namespace fovea::nn
