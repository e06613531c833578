#include "fovea/ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "fovea/ops/cpu/dropout_kernel.h"
#include "fovea/ops/forward_mode.h"
#include "fovea/ops/philox.h"

namespace fovea::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Where the rows of an input lie: enough to name (sequence, head, row) of the i-th run of `columns` elements.
struct Rows {
  int64_t heads = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  const int32_t* offsets = nullptr;
  int64_t batch = 0;

  RowIndex at(int64_t i) const {
    if (offsets != nullptr) {
      const auto sequence = std::upper_bound(offsets, offsets + batch + 1, static_cast<int32_t>(i)) - offsets - 1;
      return {static_cast<uint32_t>(i - offsets[sequence]), static_cast<uint32_t>(sequence), 0};
    }
    return {static_cast<uint32_t>(i % rows), static_cast<uint32_t>(i / (rows * heads)),
            static_cast<uint32_t>(i / rows % heads)};
  }
};

Rows rows_of(const at::Tensor& input, const at::Tensor& offsets) {
  Rows r;
  r.columns = input.size(-1);
  if (input.dim() == 4) {
    r.heads = input.size(1);
    r.rows = input.size(2);
  } else if (input.dim() == 3) {
    r.rows = input.size(1);
  } else if (offsets.defined()) {
    r.offsets = offsets.const_data_ptr<int32_t>();
    r.batch = offsets.numel() - 1;
  }
  return r;
}

void check_arguments(const at::Tensor& input, const at::Tensor& rng, double p, const OptionalTensor& offsets) {
  TORCH_CHECK(p >= 0.0 && p <= 1.0, "dropout: p must be in [0, 1], got ", p);
  TORCH_CHECK(input.is_floating_point(), "dropout: input must be floating point, got ", input.scalar_type());
  TORCH_CHECK(input.dim() >= 2 && input.dim() <= 4, "dropout: input must have 2 to 4 dimensions, got ", input.dim());
  TORCH_CHECK(rng.scalar_type() == at::kLong && rng.numel() == 3 && rng.is_cpu() && rng.is_contiguous(),
              "dropout: rng must be a contiguous int64 CPU tensor {seed, step, site}");
  if (offsets.has_value() && offsets->defined()) {
    TORCH_CHECK(input.dim() == 2, "dropout: offsets go with a packed input (total, channels), got ", input.sizes());
    TORCH_CHECK(offsets->scalar_type() == at::kInt && offsets->dim() == 1 && offsets->is_cpu() &&
                    offsets->is_contiguous() && offsets->numel() >= 1,
                "dropout: offsets must be a contiguous int32 CPU tensor (batch + 1)");
    const auto* o = offsets->const_data_ptr<int32_t>();
    TORCH_CHECK(o[0] == 0 && o[offsets->numel() - 1] == input.size(0), "dropout: offsets must run from 0 to ",
                input.size(0), ", got ", o[0], " to ", o[offsets->numel() - 1]);
  }
}

at::Tensor dropout_cpu(const at::Tensor& input, const at::Tensor& rng, double p, const OptionalTensor& offsets_opt) {
  check_arguments(input, rng, p, offsets_opt);
  if (p == 0.0) return input.clone();
  const at::Tensor x = input.contiguous();
  at::Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  const DropoutDraw draw = dropout_draw(rng.const_data_ptr<int64_t>(), p);
  const Rows rows = rows_of(x, offsets_opt.value_or(at::Tensor()));
  const int64_t count = x.numel() / rows.columns;
  // About 16k elements a task: below that, starting threads costs more than the draws.
  const int64_t grain = std::max<int64_t>(1, 16384 / rows.columns);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "fovea::dropout", [&] {
    const scalar_t* in = x.const_data_ptr<scalar_t>();
    scalar_t* out = y.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * rows.columns;
        dropout_row(in + at, out + at, rows.columns, rows.at(i), draw);
      }
    });
  });
  return y;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& rng,
                            double p, const OptionalTensor& offsets) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["p"] = p;
    // Backward draws again from the same counters instead of keeping a mask.
    context->save_for_backward({rng, offsets.value_or(at::Tensor())});
    return dropout(input, rng, p, offsets);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const OptionalTensor offsets = saved[1].defined() ? OptionalTensor(saved[1]) : std::nullopt;
    return {dropout(grads[0], saved[0], context->saved_data["p"].toDouble(), offsets), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

at::Tensor dropout_autograd(const at::Tensor& input, const at::Tensor& rng, double p, const OptionalTensor& offsets) {
  refuse_tangent("dropout", "input", input);
  return DropoutFunction::apply(input, rng, p, offsets);
}

at::Tensor dropout_meta(const at::Tensor& input, const at::Tensor&, double, const OptionalTensor&) {
  return at::empty_like(input, at::MemoryFormat::Contiguous);
}

// a * b of two 32-bit numbers held in int64, as high and low words; int64 cannot hold the product itself.
std::pair<at::Tensor, at::Tensor> multiply_words(int64_t a, const at::Tensor& b) {
  const int64_t a_high = a >> 16, a_low = a & 0xFFFF;
  const at::Tensor b_high = b.bitwise_right_shift(16), b_low = b.bitwise_and(0xFFFF);
  const at::Tensor low = b_low * a_low;
  const at::Tensor middle = b_high * a_low + low.bitwise_right_shift(16);
  const at::Tensor middle2 = b_low * a_high + middle.bitwise_and(0xFFFF);
  const at::Tensor high = b_high * a_high + middle.bitwise_right_shift(16) + middle2.bitwise_right_shift(16);
  return {high, middle2.bitwise_and(0xFFFF).bitwise_left_shift(16).bitwise_or(low.bitwise_and(0xFFFF))};
}

}  // namespace

at::Tensor dropout(const at::Tensor& input, const at::Tensor& rng, double p, const OptionalTensor& offsets) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::dropout", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double, const OptionalTensor&)>();
  return op.call(input, rng, p, offsets);
}

at::Tensor dropout_reference(const at::Tensor& input, const at::Tensor& rng, double p, const OptionalTensor& offsets) {
  check_arguments(input, rng, p, offsets);
  if (p == 0.0) return input.clone();
  const DropoutDraw draw = dropout_draw(rng.const_data_ptr<int64_t>(), p);
  const Rows rows = rows_of(input, offsets.value_or(at::Tensor()));
  const int64_t count = input.numel() / std::max<int64_t>(1, rows.columns);
  const int64_t blocks = (rows.columns + 3) / 4;
  at::Tensor index = at::empty({3, count}, at::kLong);
  auto* words_of = index.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const RowIndex r = rows.at(i);
    words_of[i] = r.row;
    words_of[count + i] = r.sequence;
    words_of[2 * count + i] = r.head;
  }
  index = index.to(input.device()).unsqueeze(-1).expand({3, count, blocks});
  std::array<at::Tensor, 4> c = {at::arange(blocks, index.options()).expand({count, blocks}), index[0], index[1],
                                 index[2]};
  int64_t k0 = draw.key.k0, k1 = draw.key.k1;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const auto [high0, low0] = multiply_words(kPhiloxM0, c[0]);
    const auto [high1, low1] = multiply_words(kPhiloxM1, c[2]);
    c = {high1.bitwise_xor(c[1]).bitwise_xor(k0), low1, high0.bitwise_xor(c[3]).bitwise_xor(k1), low0};
    k0 = (k0 + kPhiloxW0) & 0xFFFFFFFF;
    k1 = (k1 + kPhiloxW1) & 0xFFFFFFFF;
  }
  const at::Tensor words = at::stack({c[0], c[1], c[2], c[3]}, -1).flatten(1).narrow(1, 0, rows.columns);
  const at::Tensor keep = words.ge(static_cast<int64_t>(draw.threshold)).view(input.sizes());
  return at::where(keep, input * draw.keep_scale, at::zeros({}, input.options()));
}

}  // namespace fovea::ops

TORCH_LIBRARY_FRAGMENT(fovea, library) {
  library.def("dropout(Tensor input, Tensor rng, float p, Tensor? offsets=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(fovea, CPU, library) {
  library.impl("dropout", fovea::ops::dropout_cpu);
}
TORCH_LIBRARY_IMPL(fovea, CUDA, library) {
  library.impl("dropout", fovea::ops::dropout_reference);
}
TORCH_LIBRARY_IMPL(fovea, Meta, library) {
  library.impl("dropout", fovea::ops::dropout_meta);
}
TORCH_LIBRARY_IMPL(fovea, Autograd, library) {
  library.impl("dropout", fovea::ops::dropout_autograd);
}
