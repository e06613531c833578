#include "fovea/ops/recurrent.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "fovea/ops/cpu/recurrent_kernel.h"

namespace fovea::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Tensors = std::vector<at::Tensor>;

// Where the rows of a step lie. Inside, sequences are in order of their lengths, the longest first, so that those of a
// step are the first rows, and rows are kept step by step: what a step multiplies is one block of memory.
struct Steps {
  std::vector<int64_t> order;         // sequence -> its place in the batch
  std::vector<int64_t> lengths;       // by sequence, falling
  std::vector<int64_t> starts;        // by sequence: its first row in the packed tensor
  std::vector<int64_t> step_offsets;  // the first row of each step, and the total
  bool reverse;

  Steps(const at::Tensor& all_lengths, bool backwards) : reverse(backwards) {
    const auto batch = all_lengths.numel();
    const auto* length = all_lengths.const_data_ptr<int64_t>();
    order.resize(static_cast<size_t>(batch));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length[a] > length[b]; });
    std::vector<int64_t> first(static_cast<size_t>(batch));
    std::exclusive_scan(length, length + batch, first.begin(), int64_t{0});
    for (const int64_t place : order) {
      lengths.push_back(length[place]);
      starts.push_back(first[static_cast<size_t>(place)]);
    }
    step_offsets = {0};
    int64_t going = batch;
    for (int64_t t = 0; t < count(); ++t) {
      while (going > 0 && lengths[static_cast<size_t>(going - 1)] <= t) --going;
      step_offsets.push_back(step_offsets.back() + going);
    }
  }

  int64_t count() const { return lengths.empty() ? 0 : lengths.front(); }
  int64_t offset(int64_t step) const { return step_offsets[static_cast<size_t>(step)]; }
  int64_t rows(int64_t step) const { return offset(step + 1) - offset(step); }
  int64_t rows_after(int64_t step) const { return step + 1 < count() ? rows(step + 1) : 0; }
  // The packed row of a sequence at a step.
  int64_t token(int64_t sequence, int64_t step) const {
    const auto s = static_cast<size_t>(sequence);
    return starts[s] + (reverse ? lengths[s] - 1 - step : step);
  }
  // Rows by sequence from rows in the order of the batch, and back; undefined stays undefined.
  at::Tensor by_sequence(const at::Tensor& x) const {
    return x.defined() ? x.index_select(0, at::tensor(order, at::kLong)) : at::Tensor();
  }
  at::Tensor in_batch_order(const at::Tensor& x) const {
    return x.defined() ? at::empty_like(x).index_copy_(0, at::tensor(order, at::kLong), x) : at::Tensor();
  }
};

// About 16k numbers a task: below that, starting threads costs more than the work.
template <typename F>
void for_rows(int64_t rows, int64_t hiddens, const F& f) {
  at::parallel_for(0, rows, std::max<int64_t>(1, 4096 / hiddens), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

void check_arguments(const at::Tensor& gates, const at::Tensor& weight_hh, const OptionalTensor& bias_hh,
                     const at::Tensor& h0, const OptionalTensor& c0, const at::Tensor& lengths) {
  TORCH_CHECK(gates.is_cpu() && (gates.scalar_type() == at::kFloat || gates.scalar_type() == at::kDouble),
              "recurrent: gates must be float32 or float64 on the CPU, got ", gates.scalar_type(), " on ",
              gates.device());
  TORCH_CHECK(gates.dim() == 2 && h0.dim() == 2, "recurrent: expected gates (total, gates x hiddens) and h0 (batch, ",
              "hiddens), got ", gates.sizes(), " and ", h0.sizes());
  const int64_t hiddens = h0.size(1);
  const bool lstm = c0.has_value() && c0->defined();
  const int64_t count = lstm ? 4 : 3;
  TORCH_CHECK(hiddens > 0 && gates.size(1) == count * hiddens, "recurrent: expected ", count, " gates of ", hiddens,
              " hiddens", lstm ? " (LSTM)" : " (GRU)", ", got ", gates.sizes());
  TORCH_CHECK(weight_hh.sizes() == at::IntArrayRef({count * hiddens, hiddens}), "recurrent: expected weight_hh (",
              count * hiddens, ", ", hiddens, "), got ", weight_hh.sizes());
  if (bias_hh.has_value() && bias_hh->defined()) {
    TORCH_CHECK(bias_hh->sizes() == at::IntArrayRef({count * hiddens}), "recurrent: expected bias_hh (",
                count * hiddens, "), got ", bias_hh->sizes());
  }
  TORCH_CHECK(
      lengths.is_cpu() && lengths.scalar_type() == at::kLong && lengths.dim() == 1 && lengths.size(0) == h0.size(0),
      "recurrent: lengths must be int64 (batch) on the CPU, got ", lengths.sizes(), " for h0 ", h0.sizes());
  TORCH_CHECK(lengths.numel() == 0 || lengths.min().item<int64_t>() >= 0, "recurrent: a length is negative");
  TORCH_CHECK(lengths.sum().item<int64_t>() == gates.size(0), "recurrent: the lengths add up to ",
              lengths.sum().item<int64_t>(), ", gates has ", gates.size(0), " rows");
  TORCH_CHECK(!lstm || c0->sizes() == h0.sizes(), "recurrent: c0 ", lstm ? c0->sizes() : h0.sizes(),
              " differs from h0 ", h0.sizes());
  for (const auto* t : {&weight_hh, &h0}) {
    TORCH_CHECK(t->scalar_type() == gates.scalar_type(), "recurrent: gates are ", gates.scalar_type(),
                ", another argument is ", t->scalar_type());
  }
}

// y, h_n, c_n, and what backward needs: the gates, and h and c before each step, step by step.
Tensors forward(const at::Tensor& gates_in, const at::Tensor& weight_hh, const OptionalTensor& bias_hh,
                const at::Tensor& h0, const OptionalTensor& c0, const at::Tensor& lengths_in, bool reverse) {
  check_arguments(gates_in, weight_hh, bias_hh, h0, c0, lengths_in);
  const at::Tensor gates = gates_in.contiguous(), lengths = lengths_in.contiguous();
  const bool lstm = c0.has_value() && c0->defined();
  const int64_t n = h0.size(1), width = gates.size(1), total = gates.size(0);
  const Steps steps(lengths, reverse);
  at::Tensor h_last = steps.by_sequence(h0), c_last = lstm ? steps.by_sequence(*c0) : at::Tensor();
  const auto options = gates.options();
  at::Tensor y = at::empty({total, n}, options), kept = at::empty({total, 4 * n}, options);
  at::Tensor h_prev = at::empty({total, n}, options), c_prev = lstm ? at::empty({total, n}, options) : at::Tensor();
  if (steps.count() > 0) {
    h_prev.narrow(0, 0, steps.rows(0)).copy_(h_last.narrow(0, 0, steps.rows(0)));
    if (lstm) c_prev.narrow(0, 0, steps.rows(0)).copy_(c_last.narrow(0, 0, steps.rows(0)));
  }
  at::Tensor products = at::empty({h0.size(0), width}, options);
  const at::Tensor transposed = weight_hh.t();
  AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), "fovea::recurrent", [&] {
    const auto* gx = gates.const_data_ptr<scalar_t>();
    auto *y_data = y.mutable_data_ptr<scalar_t>(), *kept_data = kept.mutable_data_ptr<scalar_t>();
    auto *h_data = h_prev.mutable_data_ptr<scalar_t>(), *h_end = h_last.mutable_data_ptr<scalar_t>();
    auto* c_data = lstm ? c_prev.mutable_data_ptr<scalar_t>() : nullptr;
    auto* c_end = lstm ? c_last.mutable_data_ptr<scalar_t>() : nullptr;
    for (int64_t t = 0; t < steps.count(); ++t) {
      const int64_t rows = steps.rows(t), after = steps.rows_after(t), at = steps.offset(t);
      at::Tensor gh = products.narrow(0, 0, rows);
      const at::Tensor h = h_prev.narrow(0, at, rows);
      if (bias_hh.has_value() && bias_hh->defined()) {
        at::addmm_out(gh, *bias_hh, h, transposed);
      } else {
        at::mm_out(gh, h, transposed);
      }
      const auto* gh_data = gh.const_data_ptr<scalar_t>();
      for_rows(rows, n, [&](int64_t i) {
        const int64_t token = steps.token(i, t), row = at + i;
        // What ends here is the sequence's last state; what goes on is the next step's input.
        scalar_t* next = i < after ? h_data + (at + rows + i) * n : h_end + i * n;
        if (lstm) {
          scalar_t* next_c = i < after ? c_data + (at + rows + i) * n : c_end + i * n;
          run(LstmStep<scalar_t>{n, gx + token * width, gh_data + i * width, c_data + row * n, kept_data + row * 4 * n,
                                 next, next_c});
        } else {
          run(GruStep<scalar_t>{n, gx + token * width, gh_data + i * width, h_data + row * n, kept_data + row * 4 * n,
                                next});
        }
        std::copy_n(next, n, y_data + token * n);
      });
    }
  });
  return {y, steps.in_batch_order(h_last), steps.in_batch_order(c_last), kept, h_prev, c_prev};
}

struct RecurrentGradients {
  at::Tensor gates, weight_hh, bias_hh, h0, c0;
};

RecurrentGradients backward(const at::Tensor& grad_y, const at::Tensor& grad_h_last, const at::Tensor& grad_c_last,
                            const at::Tensor& weight_hh, const at::Tensor& lengths, const at::Tensor& kept,
                            const at::Tensor& h_prev, const at::Tensor& c_prev, bool reverse) {
  const bool lstm = c_prev.defined();
  const int64_t n = h_prev.size(1), width = weight_hh.size(0), total = h_prev.size(0);
  const Steps steps(lengths, reverse);
  const auto options = h_prev.options();
  const auto batch = lengths.numel();
  const auto sorted = [&](const at::Tensor& x) {
    return x.defined() ? steps.by_sequence(x).contiguous() : at::zeros({batch, n}, options);
  };
  // The gradients of the states that the next steps have left, by sequence; and of those before this step.
  at::Tensor grad_h = sorted(grad_h_last), grad_c = lstm ? sorted(grad_c_last) : at::Tensor();
  at::Tensor grad_h_before = at::empty({batch, n}, options), grad_c_before = at::empty({lstm ? batch : 0, n}, options);
  const at::Tensor gy = grad_y.defined() ? grad_y.contiguous() : at::Tensor();
  at::Tensor grad_gx = at::empty({total, width}, options);
  at::Tensor grad_gh = at::empty({total, width}, options);  // step by step, as h_prev
  AT_DISPATCH_FLOATING_TYPES(h_prev.scalar_type(), "fovea::recurrent_backward", [&] {
    const auto *kept_data = kept.const_data_ptr<scalar_t>(), *h_data = h_prev.const_data_ptr<scalar_t>();
    const auto* c_data = lstm ? c_prev.const_data_ptr<scalar_t>() : nullptr;
    const auto* gy_data = gy.defined() ? gy.const_data_ptr<scalar_t>() : nullptr;
    auto *gx = grad_gx.mutable_data_ptr<scalar_t>(), *gh = grad_gh.mutable_data_ptr<scalar_t>();
    auto *dh = grad_h.mutable_data_ptr<scalar_t>(), *dh_before = grad_h_before.mutable_data_ptr<scalar_t>();
    auto* dc = lstm ? grad_c.mutable_data_ptr<scalar_t>() : nullptr;
    auto* dc_before = lstm ? grad_c_before.mutable_data_ptr<scalar_t>() : nullptr;
    for (int64_t t = steps.count() - 1; t >= 0; --t) {
      const int64_t rows = steps.rows(t), at = steps.offset(t);
      for_rows(rows, n, [&](int64_t i) {
        const int64_t token = steps.token(i, t), row = at + i;
        scalar_t* grad = dh + i * n;
        if (gy_data != nullptr) {
          for (int64_t j = 0; j < n; ++j) grad[j] += gy_data[token * n + j];
        }
        if (lstm) {
          run(LstmStepBackward<scalar_t>{n, kept_data + row * 4 * n, c_data + row * n, grad, dc + i * n,
                                         gx + token * width, dc_before + i * n});
          std::copy_n(gx + token * width, width, gh + row * width);
          std::copy_n(dc_before + i * n, n, dc + i * n);
          std::fill_n(grad, n, scalar_t(0));
        } else {
          run(GruStepBackward<scalar_t>{n, kept_data + row * 4 * n, h_data + row * n, grad, gx + token * width,
                                        gh + row * width, dh_before + i * n});
          std::copy_n(dh_before + i * n, n, grad);
        }
      });
      at::Tensor grad_here = grad_h.narrow(0, 0, rows);
      grad_here.addmm_(grad_gh.narrow(0, at, rows), weight_hh);
    }
  });
  return {grad_gx, grad_gh.t().mm(h_prev), grad_gh.sum(0), steps.in_batch_order(grad_h), steps.in_batch_order(grad_c)};
}

class RecurrentFunction : public torch::autograd::Function<RecurrentFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& gates,
                                                const at::Tensor& weight_hh, const OptionalTensor& bias_hh,
                                                const at::Tensor& h0, const OptionalTensor& c0,
                                                const at::Tensor& lengths, bool reverse) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensors made = ops::forward(gates, weight_hh, bias_hh, h0, c0, lengths, reverse);
    context->saved_data["reverse"] = reverse;
    context->saved_data["has_bias"] = bias_hh.has_value() && bias_hh->defined();
    context->save_for_backward({weight_hh, lengths, made[3], made[4], made[5]});
    if (made[2].defined()) return {made[0], made[1], made[2]};
    return {made[0], made[1]};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "recurrent: gradients of gradients are not implemented");
    const auto saved = context->get_saved_variables();
    RecurrentGradients g =
        ops::backward(grads[0], grads[1], grads.size() > 2 ? grads[2] : at::Tensor(), saved[0], saved[1].contiguous(),
                      saved[2], saved[3], saved[4], context->saved_data["reverse"].toBool());
    const bool has_bias = context->saved_data["has_bias"].toBool();
    return {g.gates, g.weight_hh, has_bias ? g.bias_hh : at::Tensor(), g.h0, g.c0, at::Tensor(), at::Tensor()};
  }
};

using RecurrentResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

RecurrentResult recurrent_cpu(const at::Tensor& gates, const at::Tensor& weight_hh, const OptionalTensor& bias_hh,
                              const at::Tensor& h0, const OptionalTensor& c0, const at::Tensor& lengths, bool reverse) {
  Tensors made = forward(gates, weight_hh, bias_hh, h0, c0, lengths, reverse);
  return {made[0], made[1], made[2]};
}

RecurrentResult recurrent_autograd(const at::Tensor& gates, const at::Tensor& weight_hh, const OptionalTensor& bias_hh,
                                   const at::Tensor& h0, const OptionalTensor& c0, const at::Tensor& lengths,
                                   bool reverse) {
  auto made = RecurrentFunction::apply(gates, weight_hh, bias_hh, h0, c0, lengths, reverse);
  return {made[0], made[1], made.size() > 2 ? made[2] : at::Tensor()};
}

}  // namespace

RecurrentResult recurrent(const at::Tensor& gates, const at::Tensor& weight_hh, const OptionalTensor& bias_hh,
                          const at::Tensor& h0, const OptionalTensor& c0, const at::Tensor& lengths, bool reverse) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("fovea::recurrent", "")
          .typed<RecurrentResult(const at::Tensor&, const at::Tensor&, const OptionalTensor&, const at::Tensor&,
                                 const OptionalTensor&, const at::Tensor&, bool)>();
  return op.call(gates, weight_hh, bias_hh, h0, c0, lengths, reverse);
}

}  // namespace fovea::ops

TORCH_LIBRARY_FRAGMENT(fovea, library) {
  library.def(
      "recurrent(Tensor gates, Tensor weight_hh, Tensor? bias_hh, Tensor h0, Tensor? c0, Tensor lengths, "
      "bool reverse=False) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(fovea, CPU, library) {
  library.impl("recurrent", fovea::ops::recurrent_cpu);
}
TORCH_LIBRARY_IMPL(fovea, Autograd, library) {
  library.impl("recurrent", fovea::ops::recurrent_autograd);
}
