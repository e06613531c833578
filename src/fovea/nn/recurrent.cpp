#include "fovea/nn/recurrent.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/linear.h"
#include "fovea/nn/size.h"
#include "fovea/ops/recurrent.h"

namespace fovea::nn {
namespace {

// A traced graph is to run without this library, so it is made of torch's own ops.
bool takes_fused(const at::Tensor& x) {
  return x.is_cpu() && !is_tracing() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

}  // namespace

RecurrentImpl::RecurrentImpl(const RecurrentOptions& o)
    : options_(o), width_(o.bidirectional ? o.num_hiddens / 2 : o.num_hiddens), dropout_(o.dropout) {
  if (o.input_size < 1 || o.num_hiddens < 1 || o.num_layers < 1) {
    fail("recurrent layers: sizes must be at least 1, got {} inputs, {} hiddens, {} layers", o.input_size,
         o.num_hiddens, o.num_layers);
  }
  if (o.bidirectional && o.num_hiddens % 2 != 0) {
    fail("recurrent layers: two directions need an even num_hiddens, got {}", o.num_hiddens);
  }
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    const int64_t inputs = layer == 0 ? o.input_size : o.num_hiddens;
    const std::string suffix = "_l" + std::to_string(layer);
    layers_.push_back({make_direction(inputs, suffix)});
    if (o.bidirectional) layers_.back().push_back(make_direction(inputs, suffix + "_reverse"));
  }
  register_module("dropout", dropout_);
}

RecurrentImpl::Direction RecurrentImpl::make_direction(int64_t inputs, const std::string& suffix) {
  const int64_t rows = (options_.cell == Cell::kLstm ? 4 : 3) * width_;
  const double bound = 1.0 / std::sqrt(static_cast<double>(width_));  // as torch's
  const auto make = [&](const std::string& name, at::IntArrayRef sizes) {
    return register_parameter(name + suffix, at::empty(sizes).uniform_(-bound, bound));
  };
  return {make("weight_ih", {rows, inputs}), make("weight_hh", {rows, width_}), make("bias_ih", {rows}),
          make("bias_hh", {rows})};
}

Cache RecurrentImpl::make_state(const at::Tensor& like) const {
  Cache state;
  for (int64_t i = 0; i < options_.num_layers * tensors_per_layer(); ++i) {
    state.push_back(new_zeros(like, {Size::of(like, 0), options_.num_hiddens}));
  }
  return state;
}

std::vector<RecurrentImpl::State> RecurrentImpl::initial_of(const Cache& state, int64_t layer) const {
  const int64_t count = tensors_per_layer(), directions = options_.bidirectional ? 2 : 1;
  std::vector<State> initial(static_cast<size_t>(directions));
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor& whole = state.at(static_cast<size_t>(layer * count + i));
    for (int64_t d = 0; d < directions; ++d) {
      const at::Tensor part = directions == 1 ? whole : whole.narrow(1, d * width_, width_);
      (i == 0 ? initial[static_cast<size_t>(d)].h : initial[static_cast<size_t>(d)].c) = part;
    }
  }
  return initial;
}

RecurrentOutput RecurrentImpl::run_fused(const Layer& layer, const at::Tensor& x, const SequenceLayout& layout,
                                         const std::vector<State>& initial) const {
  const at::Tensor packed = layout.is_packed() ? x : layout.pack(x);  // (total, inputs)
  const at::Tensor lengths = at::tensor(layout.host_lengths(), at::kLong);
  std::vector<at::Tensor> y, h, c;
  for (size_t d = 0; d < layer.size(); ++d) {
    const Direction& p = layer[d];
    const auto [states, last_h, last_c] = ops::recurrent(linear(packed, p.weight_ih, p.bias_ih), p.weight_hh, p.bias_hh,
                                                         initial[d].h, initial[d].c, lengths, /*reverse=*/d == 1);
    y.push_back(states);
    h.push_back(last_h);
    if (last_c.defined()) c.push_back(last_c);
  }
  const auto joined = [](const std::vector<at::Tensor>& parts) {
    return parts.size() == 1 ? parts[0] : at::cat(parts, -1);
  };
  RecurrentOutput out{layout.is_packed() ? joined(y) : layout.pad(joined(y)), {joined(h)}};
  if (!c.empty()) out.state.push_back(joined(c));
  return out;
}

// torch packs sequences that are sorted and not empty, and pads to the longest. So there is one more, of all steps.
RecurrentOutput RecurrentImpl::run_plain(const Layer& layer, const at::Tensor& x_in, const SequenceLayout& layout,
                                         const std::vector<State>& initial) const {
  const at::Tensor x = layout.is_packed() ? layout.pad(x_in) : layout.zero_padding(x_in);  // (batch, steps, inputs)
  const auto with_one_more = [](const at::Tensor& rows) { return at::cat({rows, rows.narrow(0, 0, 1)}); };
  const at::Tensor valid = layout.lengths().gt(0).unsqueeze(1);  // (batch, 1)
  const at::Tensor steps = add(layout.lengths().new_zeros({1}), layout.traced_steps());
  const at::Tensor lengths = at::cat({layout.lengths().clamp_min(1), steps});
  const at::Tensor order = std::get<1>(at::sort(lengths, /*stable=*/true, /*dim=*/0, /*descending=*/true));
  const at::Tensor back = at::argsort(order);
  std::vector<at::Tensor> parameters, h0, c0;
  for (size_t d = 0; d < layer.size(); ++d) {
    for (const auto& t : {layer[d].weight_ih, layer[d].weight_hh, layer[d].bias_ih, layer[d].bias_hh}) {
      parameters.push_back(t);
    }
    h0.push_back(with_one_more(initial[d].h).index_select(0, order));
    if (initial[d].c.defined()) c0.push_back(with_one_more(initial[d].c).index_select(0, order));
  }
  const auto [data, batch_sizes] = at::_pack_padded_sequence(
      with_one_more(x).index_select(0, order), lengths.index_select(0, order).cpu(), /*batch_first=*/true);
  const bool two = layer.size() == 2;
  at::Tensor y, h, c;  // h, c: (directions, batch + 1, hiddens)
  if (c0.empty()) {
    std::tie(y, h) = at::gru(data, batch_sizes, at::stack(h0), parameters, /*has_biases=*/true, /*num_layers=*/1,
                             /*dropout=*/0.0, /*train=*/false, two);
  } else {
    std::tie(y, h, c) = at::lstm(data, batch_sizes, {at::stack(h0), at::stack(c0)}, parameters, /*has_biases=*/true,
                                 /*num_layers=*/1, /*dropout=*/0.0, /*train=*/false, two);
  }
  const at::Tensor padded = std::get<0>(at::_pad_packed_sequence(y, batch_sizes, /*batch_first=*/true, 0.0, -1));
  const auto without_one = [](const at::Tensor& rows) { return rows.slice(0, 0, -1); };
  const at::Tensor outputs = layout.zero_padding(without_one(padded.index_select(0, back)));
  const auto last = [&](const at::Tensor& all, bool is_c) {
    std::vector<at::Tensor> parts;
    for (size_t d = 0; d < layer.size(); ++d) {
      const at::Tensor end = without_one(all.select(0, static_cast<int64_t>(d)).index_select(0, back));
      parts.push_back(at::where(valid, end, is_c ? initial[d].c : initial[d].h));
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts, -1);
  };
  RecurrentOutput out{layout.is_packed() ? layout.pack(outputs) : outputs, {last(h, false)}};
  if (c.defined()) out.state.push_back(last(c, true));
  return out;
}

RecurrentOutput RecurrentImpl::run_layer(const Layer& layer, const at::Tensor& x, const SequenceLayout& layout,
                                         const std::vector<State>& initial) const {
  // The op wants the lengths on the host.
  if (takes_fused(x) && !layout.host_lengths().empty()) return run_fused(layer, x, layout, initial);
  return run_plain(layer, x, layout, initial);
}

RecurrentOutput RecurrentImpl::forward(const at::Tensor& x, const SequenceLayout& layout, const Cache& initial) {
  at::Tensor y = x;
  Cache state;
  const Cache start =
      !initial.empty() ? initial : make_state(layout.is_packed() ? x.new_empty({layout.batch(), 1}) : x);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layer > 0) y = dropout_->forward(y, layout);
    RecurrentOutput out = run_layer(layers_[layer], y, layout, initial_of(start, static_cast<int64_t>(layer)));
    y = out.y;
    append(state, std::move(out.state));
  }
  return {y, std::move(state)};
}

at::Tensor RecurrentImpl::input_gates(const at::Tensor& x, int64_t first) const {
  const Direction& p = layers_.front().front();
  return linear(x, p.weight_ih.narrow(1, first, x.size(-1)), first == 0 ? p.bias_ih : at::Tensor());
}

at::Tensor RecurrentImpl::step(const at::Tensor& x, CacheCursor& cache) {
  return step_gates(input_gates(x, 0), cache);
}

at::Tensor RecurrentImpl::step_gates(const at::Tensor& first_gates, CacheCursor& cache) {
  if (options_.bidirectional) fail("recurrent layers of two directions need the whole sequence");
  at::Tensor gates = first_gates, h;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const Direction& p = layers_[layer].front();
    if (layer > 0) gates = linear(dropout_->forward(h), p.weight_ih, p.bias_ih);
    at::Tensor& state = cache.next();
    at::Tensor* cell = options_.cell == Cell::kLstm ? &cache.next() : nullptr;
    if (takes_fused(gates)) {
      const at::Tensor ones = at::ones({gates.size(0)}, at::kLong);
      const auto [y, next_h, next_c] =
          ops::recurrent(gates, p.weight_hh, p.bias_hh, state, cell != nullptr ? *cell : at::Tensor(), ones, false);
      state = h = y;
      if (cell != nullptr) *cell = next_c;
      continue;
    }
    const at::Tensor recurrent = linear(state, p.weight_hh, p.bias_hh);
    if (cell != nullptr) {
      const auto parts = (gates + recurrent).chunk(4, 1);
      *cell = at::sigmoid(parts[1]) * *cell + at::sigmoid(parts[0]) * at::tanh(parts[2]);
      state = h = at::sigmoid(parts[3]) * at::tanh(*cell);
    } else {
      const auto x = gates.chunk(3, 1), r = recurrent.chunk(3, 1);
      const at::Tensor z = at::sigmoid(x[1] + r[1]);
      const at::Tensor candidate = at::tanh(x[2] + at::sigmoid(x[0] + r[0]) * r[2]);
      state = h = candidate + z * (state - candidate);
    }
  }
  return h;
}

}  // namespace fovea::nn
