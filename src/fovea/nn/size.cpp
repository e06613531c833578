#include "fovea/nn/size.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/torch.h>

namespace fovea::nn {
namespace {

using torch::jit::tracer::ArgumentStash;

// The way in which torch's Python bindings tell the tracer that an integer argument is a value of the graph: left under
// the argument's name, picked up by the next traced op that has an argument of that name.
void stash(const char* argument, const Size& size) {
  if (size.traced().defined()) ArgumentStash::stashValue(argument, 0, size.traced(), c10::IntType::get());
}

std::vector<int64_t> stash_sizes(const std::vector<Size>& sizes) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < sizes.size(); ++i) {
    values.push_back(sizes[i].value());
    if (sizes[i].traced().defined()) {
      ArgumentStash::stashIntArrayRefElem("size", sizes.size(), i, sizes[i].traced());
    }
  }
  return values;
}

}  // namespace

bool is_tracing() {
  return torch::jit::tracer::isTracing();
}

Size Size::of(const at::Tensor& x, int64_t dim) {
  return is_tracing() ? Size(x.size(dim), torch::jit::tracer::getSizeOf(x, dim)) : Size(x.size(dim));
}

Size Size::from(const at::Tensor& scalar) {
  return is_tracing() ? Size(scalar.item<int64_t>(), scalar) : Size(scalar.item<int64_t>());
}

Size Size::operator+(const Size& other) const {
  if (!traced_.defined() && !other.traced_.defined()) return Size(value_ + other.value_);
  if (!traced_.defined()) return Size(value_ + other.value_, other.traced_ + value_);
  return Size(value_ + other.value_, add(traced_, other));
}

Size Size::operator-(const Size& other) const {
  if (!traced_.defined() && !other.traced_.defined()) return Size(value_ - other.value_);
  if (!traced_.defined()) return Size(value_ - other.value_, value_ - other.traced_);
  return Size(value_ - other.value_, other.traced_.defined() ? traced_ - other.traced_ : traced_ - other.value_);
}

at::Tensor narrow(const at::Tensor& x, int64_t dim, const Size& start, const Size& length) {
  if (!is_tracing()) return x.narrow(dim, start.value(), length.value());
  const Size end = start.value() == 0 && !start.traced().defined() ? length : start + length;
  stash("start", start);
  stash("end", end);
  return at::slice(x, dim, start.value(), end.value());
}

at::Tensor new_zeros(const at::Tensor& like, const std::vector<Size>& sizes) {
  return like.new_zeros(stash_sizes(sizes));
}

at::Tensor arange(const Size& end, const at::Tensor& like) {
  if (!is_tracing()) return at::arange(end.value(), at::TensorOptions(at::kLong).device(like.device()));
  // at::arange would freeze the device in the graph as well.
  return like.new_ones(stash_sizes({end}), at::kLong).cumsum(0) - 1;
}

at::Tensor add(const at::Tensor& x, const Size& size) {
  return size.traced().defined() ? x + size.traced() : x + size.value();
}

}  // namespace fovea::nn
