// flash_attention on CUDA: tensors to kernel parameters. The arithmetic is in the kernels.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>

#include "fovea/ops/cuda/flash_launch.h"
#include "fovea/ops/flash_attention_problem.h"

namespace fovea::ops {
namespace {

using cuda::FlashParams;
using cuda::Strides;

constexpr int64_t kLongest = int64_t{1} << 29;  // positions and windows are 32-bit numbers in the kernels

int64_t round_up(int64_t x) {
  return (x + 7) / 8 * 8;
}

Strides strides_of(const at::Tensor& t) {
  if (t.dim() == 3) return {0, t.stride(1), t.stride(0)};  // (total, heads, dim)
  return {t.stride(0), t.stride(1), t.stride(2)};          // (batch, heads, steps, dim)
}

// 16-bit rows are copied 16 bytes at a time; float32 rows must only be contiguous.
at::Tensor with_usable_rows(const at::Tensor& t) {
  const int64_t channels = t.size(-1);
  if (t.scalar_type() == at::kFloat) return t.stride(-1) == 1 ? t : t.contiguous();
  if (channels % 8 != 0) return at::constant_pad_nd(t, {0, round_up(channels) - channels});
  bool usable = t.stride(-1) == 1 && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
  for (int64_t i = 0; i + 1 < t.dim(); ++i) usable = usable && t.stride(i) % 8 == 0;
  return usable ? t : t.clone(at::MemoryFormat::Contiguous);
}

// A result whose rows the kernels can write: (batch, heads, steps, dim) that lies as (batch, steps, heads, dim), with
// room for a multiple of eight channels.
class Result {
 public:
  Result(const at::Tensor& like, int64_t channels) : channels_(channels) {
    auto sizes = like.sizes().vec();
    sizes.back() = like.scalar_type() == at::kFloat ? channels : round_up(channels);
    padded_ = sizes.size() == 4;
    if (padded_) std::swap(sizes[1], sizes[2]);
    memory_ = at::empty(sizes, like.options());
  }
  at::Tensor rows() const { return padded_ ? memory_.transpose(1, 2) : memory_; }
  at::Tensor get() const {
    const at::Tensor exact = memory_.size(-1) == channels_ ? memory_ : memory_.narrow(-1, 0, channels_).contiguous();
    return padded_ ? exact.transpose(1, 2) : exact;
  }

 private:
  int64_t channels_;
  bool padded_ = false;
  at::Tensor memory_;
};

// A call's parameters, and the tensors that they point into.
struct Call {
  FlashAttentionProblem problem;
  FlashParams params;
  at::Tensor query, key, value, query_lens, valid_lens;

  bool empty() const {
    return problem.batch * problem.heads == 0 || query.numel() == 0 || key.numel() == 0 || problem.queries == 0 ||
           problem.keys == 0;
  }
};

Call make_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               FOVEA_FLASH_ATTENTION_PARAMETERS) {
  Call c;
  c.problem = check_flash_attention(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  const FlashAttentionProblem& problem = c.problem;
  TORCH_CHECK(query.scalar_type() != at::kDouble, "flash_attention: float64 runs on the CPU only");
  TORCH_CHECK(problem.queries < kLongest && problem.keys < kLongest, "flash_attention: at most ", kLongest,
              " queries and keys, got ", problem.queries, " and ", problem.keys);
  TORCH_CHECK(
      !problem.packed || ((query.size(0) == 0 || problem.queries > 0) && (key.size(0) == 0 || problem.keys > 0)),
      "flash_attention: packed tensors on CUDA need max_query and max_key, got ", problem.queries, " and ",
      problem.keys);
  c.query = with_usable_rows(query);
  c.key = with_usable_rows(key);
  c.value = with_usable_rows(value);

  FlashParams& p = c.params;
  p.query = c.query.const_data_ptr();
  p.key = c.key.const_data_ptr();
  p.value = c.value.const_data_ptr();
  p.query_strides = strides_of(c.query);
  p.key_strides = strides_of(c.key);
  p.value_strides = strides_of(c.value);
  if (problem.packed) {
    p.query_offsets = query_offsets->const_data_ptr<int32_t>();
    p.key_offsets = key_offsets->const_data_ptr<int32_t>();
    p.lse_strides = {0, 1, problem.heads};
  } else {
    p.lse_strides = {problem.heads * problem.queries, problem.queries, 1};
  }
  if (query_lens.has_value() && query_lens->defined()) {
    c.query_lens = query_lens->contiguous();
    p.query_lens = c.query_lens.const_data_ptr<int64_t>();
  }
  if (valid_lens.has_value() && valid_lens->defined()) {
    c.valid_lens = valid_lens->contiguous();
    p.valid_lens = c.valid_lens.const_data_ptr<int64_t>();
    p.valid_lens_batch = c.valid_lens.stride(0);
    p.valid_lens_query = c.valid_lens.dim() == 2 ? 1 : 0;
  }
  if (problem.bias.defined()) {
    p.bias = problem.bias.const_data_ptr();
    p.bias_batch = problem.bias.stride(0);
    p.bias_head = problem.bias.stride(1);
    p.bias_query = problem.bias.stride(2);
    p.bias_key = problem.bias.stride(3);
  }
  p.batch = static_cast<int32_t>(problem.batch);
  p.heads = static_cast<int32_t>(problem.heads);
  p.max_query = static_cast<int32_t>(problem.queries);
  p.max_key = static_cast<int32_t>(problem.keys);
  p.head_dim = static_cast<int32_t>(c.query.size(-1));
  p.value_dim = static_cast<int32_t>(c.value.size(-1));
  p.causal = causal;
  p.window_left = static_cast<int32_t>(std::min(problem.window_left, kLongest));
  p.window_right = static_cast<int32_t>(std::min(problem.window_right, kLongest));
  p.is_float16 = query.scalar_type() == at::kHalf;
  p.is_float32 = query.scalar_type() == at::kFloat;
  p.scale = static_cast<float>(problem.scale);
  if (dropout_p > 0) {
    const DropoutDraw draw = dropout_draw(rng->const_data_ptr<int64_t>(), dropout_p);
    p.philox = draw.key;
    p.drop_threshold = draw.threshold;
    p.keep_scale = static_cast<float>(draw.keep_scale);
  }
  return c;
}

cuda::Stream stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

std::tuple<at::Tensor, at::Tensor> flash_attention_cuda(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, FOVEA_FLASH_ATTENTION_PARAMETERS) {
  const c10::cuda::CUDAGuard device(query.device());
  Call c = make_call(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  const Result output(query, c.problem.value_dim);
  auto lse_sizes = query.sizes().vec();
  lse_sizes.pop_back();
  const at::Tensor lse = at::empty(lse_sizes, query.options().dtype(at::kFloat));
  const at::Tensor rows = output.rows();
  if (c.empty()) {
    rows.zero_();
    lse.fill_(-std::numeric_limits<float>::infinity());
    return {output.get(), lse};
  }
  c.params.output = rows.mutable_data_ptr();
  c.params.output_strides = strides_of(rows);
  c.params.lse = lse.mutable_data_ptr<float>();
  C10_CUDA_CHECK(static_cast<cudaError_t>(cuda::launch_flash_forward(c.params, stream())));
  return {output.get(), lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_attention_backward_cuda(
    const at::Tensor& grad_output, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& lse, FOVEA_FLASH_ATTENTION_PARAMETERS, bool bias_grad) {
  const c10::cuda::CUDAGuard device(query.device());
  Call c = make_call(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  TORCH_CHECK(grad_output.sizes() == output.sizes() && output.size(-1) == c.problem.value_dim,
              "flash_attention_backward: grad_output must be like the output ", output.sizes(), ", got ",
              grad_output.sizes());
  const Result dq(query, c.problem.head_dim), dk(key, c.problem.head_dim), dv(value, c.problem.value_dim);
  const at::Tensor dq_rows = dq.rows(), dk_rows = dk.rows(), dv_rows = dv.rows();
  const bool wants_bias = bias_grad && c.problem.bias.defined();
  at::Tensor grad_bias = at::empty({0}, query.options());
  if (c.empty()) {
    for (const auto& t : {dq_rows, dk_rows, dv_rows}) t.zero_();
    if (wants_bias) grad_bias = at::zeros(bias->sizes(), bias->options());
    return {dq.get(), dk.get(), dv.get(), grad_bias};
  }
  const at::Tensor out = with_usable_rows(output), dout = with_usable_rows(grad_output), sums = lse.contiguous();
  const at::Tensor delta = at::empty_like(sums);
  FlashParams& p = c.params;
  p.output = const_cast<void*>(out.const_data_ptr());  // NOLINT: backward only reads it
  p.output_strides = strides_of(out);
  p.lse = const_cast<float*>(sums.const_data_ptr<float>());  // NOLINT
  p.grad_output = dout.const_data_ptr();
  p.grad_output_strides = strides_of(dout);
  p.delta = delta.mutable_data_ptr<float>();
  p.grad_query = dq_rows.mutable_data_ptr();
  p.grad_key = dk_rows.mutable_data_ptr();
  p.grad_value = dv_rows.mutable_data_ptr();
  p.grad_query_strides = strides_of(dq_rows);
  p.grad_key_strides = strides_of(dk_rows);
  p.grad_value_strides = strides_of(dv_rows);
  at::Tensor grad_scores;
  if (wants_bias) {
    const auto size = [&](int64_t from_end) { return bias->dim() >= from_end ? bias->size(-from_end) : 1; };
    p.grad_bias_batches = static_cast<int32_t>(size(4));
    p.grad_bias_heads = static_cast<int32_t>(size(3));
    grad_scores = at::empty({size(4), size(3), c.problem.queries, c.problem.keys}, sums.options());
    p.grad_bias = grad_scores.mutable_data_ptr<float>();
  }
  C10_CUDA_CHECK(static_cast<cudaError_t>(cuda::launch_flash_backward(p, stream())));
  if (wants_bias) grad_bias = at::sum_to(grad_scores, bias->sizes()).to(bias->scalar_type()).contiguous();
  return {dq.get(), dk.get(), dv.get(), grad_bias};
}

}  // namespace
}  // namespace fovea::ops

TORCH_LIBRARY_IMPL(fovea, CUDA, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_cuda);
  library.impl("flash_attention_backward", fovea::ops::flash_attention_backward_cuda);
}
