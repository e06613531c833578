#include "fovea/nn/sequence_layout.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

// Packing and padding are each other's transpose, so each one's gradient is the other: no index_add.
at::Tensor gather_rows(const at::Tensor& padded, const at::Tensor& index) {
  return padded.flatten(0, 1).index_select(0, index);
}

at::Tensor scatter_rows(const at::Tensor& packed, const at::Tensor& index, int64_t batch, int64_t steps) {
  auto sizes = packed.sizes().vec();
  sizes[0] = batch * steps;
  at::Tensor out = at::zeros(sizes, packed.options());
  out.index_copy_(0, index, packed);
  return out.unflatten(0, {batch, steps});
}

struct Pack : torch::autograd::Function<Pack> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& padded,
                            const at::Tensor& index) {
    context->save_for_backward({index});
    context->saved_data["batch"] = padded.size(0);
    context->saved_data["steps"] = padded.size(1);
    return gather_rows(padded, index);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads);
};

struct Pad : torch::autograd::Function<Pad> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& packed,
                            const at::Tensor& index, int64_t batch, int64_t steps) {
    context->save_for_backward({index});
    return scatter_rows(packed, index, batch, steps);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {Pack::apply(grads[0], context->get_saved_variables()[0]), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

torch::autograd::variable_list Pack::backward(torch::autograd::AutogradContext* context,
                                              torch::autograd::variable_list grads) {
  return {Pad::apply(grads[0], context->get_saved_variables()[0], context->saved_data["batch"].toInt(),
                     context->saved_data["steps"].toInt()),
          at::Tensor()};
}

}  // namespace

SequenceLayout SequenceLayout::padded(std::vector<int64_t> lengths, int64_t steps, at::Device device) {
  Data data;
  for (const int64_t length : lengths) {
    if (length < 0 || length > steps) fail("sequence layout: a length must be in [0, {}], got {}", steps, length);
    data.total += length;
  }
  data.batch = static_cast<int64_t>(lengths.size());
  data.steps = steps;
  data.device = device;
  data.host_lengths = std::move(lengths);
  return SequenceLayout(std::move(data));
}

SequenceLayout SequenceLayout::full(int64_t batch, const Size& steps, at::Device device) {
  SequenceLayout layout =
      padded(std::vector<int64_t>(static_cast<size_t>(batch), steps.value()), steps.value(), device);
  layout.data_->steps = steps;
  return layout;
}

SequenceLayout SequenceLayout::full(const at::Tensor& tokens) {
  return full(tokens, Size::of(tokens, 1));
}

SequenceLayout SequenceLayout::full(const at::Tensor& like, const Size& steps) {
  SequenceLayout layout = full(like.size(0), steps, like.device());
  if (is_tracing()) layout.data_->like = like;
  return layout;
}

SequenceLayout SequenceLayout::padded(const at::Tensor& lengths, const Size& steps) {
  Data data;
  data.batch = lengths.size(0);
  data.steps = steps;
  data.total = -1;
  data.device = lengths.device();
  data.lengths = lengths;
  if (is_tracing()) data.like = lengths;
  return SequenceLayout(std::move(data));
}

SequenceLayout SequenceLayout::packed(std::vector<int64_t> lengths, at::Device device) {
  const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  SequenceLayout layout = padded(std::move(lengths), longest, device);
  layout.data_->packed = true;
  return layout;
}

const at::Tensor& SequenceLayout::lengths() const {
  if (!data_->lengths.defined()) {
    data_->lengths = at::tensor(data_->host_lengths, at::kLong).to(data_->device);
  }
  return data_->lengths;
}

const at::Tensor& SequenceLayout::offsets() const {
  if (!data_->offsets.defined()) {
    std::vector<int32_t> starts(data_->host_lengths.size() + 1, 0);
    for (size_t i = 0; i < data_->host_lengths.size(); ++i) {
      starts[i + 1] = starts[i] + static_cast<int32_t>(data_->host_lengths[i]);
    }
    data_->offsets = at::tensor(starts, at::kInt);
  }
  return data_->offsets;
}

const at::Tensor& SequenceLayout::positions() const {
  if (!data_->positions.defined()) {
    if (data_->packed) {
      std::vector<int64_t> positions(static_cast<size_t>(data_->total));
      auto next = positions.begin();
      for (const int64_t length : data_->host_lengths) {
        std::iota(next, next + length, int64_t{0});
        next += length;
      }
      data_->positions = at::tensor(positions, at::kLong).to(data_->device);
    } else {
      data_->positions = row_positions();
    }
  }
  return data_->positions;
}

const at::Tensor& SequenceLayout::row_positions() const {
  if (!data_->row_positions.defined()) {
    data_->row_positions = data_->like.defined()
                               ? arange(data_->steps, data_->like)
                               : at::arange(steps(), at::TensorOptions(at::kLong).device(data_->device));
  }
  return data_->row_positions;
}

const at::Tensor& SequenceLayout::valid() const {
  if (!data_->valid.defined()) {
    data_->valid = row_positions().unsqueeze(0) < lengths().unsqueeze(1);  // (batch, steps)
  }
  return data_->valid;
}

const at::Tensor& SequenceLayout::flat_index() const {
  if (!data_->flat_index.defined()) {
    if (data_->total < 0) fail("sequence layout: packing needs the lengths on the host");
    std::vector<int64_t> index;
    index.reserve(static_cast<size_t>(data_->total));
    for (int64_t i = 0; i < data_->batch; ++i) {
      for (int64_t t = 0; t < data_->host_lengths[static_cast<size_t>(i)]; ++t) index.push_back(i * steps() + t);
    }
    data_->flat_index = at::tensor(index, at::kLong).to(data_->device);
  }
  return data_->flat_index;
}

SequenceLayout SequenceLayout::as_packed() const {
  if (data_->packed) return *this;
  if (data_->total < 0) fail("sequence layout: packing needs the lengths on the host");
  // `steps` stays that of the padded rows, so that both layouts pad to the same shape.
  SequenceLayout layout = padded(data_->host_lengths, steps(), data_->device);
  layout.data_->packed = true;
  return layout;
}

SequenceLayout SequenceLayout::as_padded() const {
  if (!data_->packed) return *this;
  return padded(data_->host_lengths, steps(), data_->device);
}

SequenceLayout SequenceLayout::to(at::Device device) const {
  if (device == data_->device) return *this;
  if (data_->total < 0) return padded(data_->lengths.to(device), data_->steps);
  SequenceLayout layout = padded(data_->host_lengths, steps(), device);
  layout.data_->packed = data_->packed;
  return layout;
}

at::Tensor SequenceLayout::pack(const at::Tensor& padded) const {
  if (padded.dim() < 2 || padded.size(0) != data_->batch || padded.size(1) != steps()) {
    fail("sequence layout: expected ({}, {}, ...) to pack, got {}", data_->batch, steps(), c10::str(padded.sizes()));
  }
  return Pack::apply(padded, flat_index());
}

at::Tensor SequenceLayout::pad(const at::Tensor& packed) const {
  if (packed.dim() < 1 || packed.size(0) != data_->total) {
    fail("sequence layout: expected ({}, ...) to pad, got {}", data_->total, c10::str(packed.sizes()));
  }
  return Pad::apply(packed, flat_index(), data_->batch, steps());
}

at::Tensor SequenceLayout::zero_padding(const at::Tensor& x) const {
  if (data_->packed || all_valid()) return x;
  at::Tensor padding = valid().logical_not();
  while (padding.dim() < x.dim()) padding = padding.unsqueeze(-1);
  return x.masked_fill(padding, 0);
}

}  // namespace fovea::nn
