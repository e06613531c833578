#include "fovea/nn/linear.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <atomic>

#include "fovea/core/error.h"
#include "fovea/nn/size.h"

namespace fovea::nn {
namespace {

std::atomic<MatmulLibrary> chosen{MatmulLibrary::kAuto};

// Rows or columns without gaps. For anything else oneDNN has but a reference implementation, a hundred times slower.
at::Tensor dense(const at::Tensor& matrix) {
  return matrix.is_contiguous() || matrix.t().is_contiguous() ? matrix : matrix.contiguous();
}

// a (m, k) times weight (n, k) transposed, plus bias (n).
using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                   std::string_view, c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);

at::Tensor call_onednn(const at::Tensor& a, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<LinearPointwise>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(dense(a), dense(weight), bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

// LibTorch registers the op for its own compiler, so it might change: it is tried once.
bool onednn_works() {
  static const bool works = [] {
    try {
      const at::Tensor a = at::ones({2, 3}), w = at::arange(12).to(at::kFloat).view({4, 3});
      return at::allclose(call_onednn(a, w, at::ones({4})), at::matmul(a, w.t()) + 1);
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return works;
}

bool prefers_onednn() {
#ifdef __x86_64__
  static const bool prefers = !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") != 0 && onednn_works();
  return prefers;
#else
  return false;
#endif
}

bool uses_onednn() {
  const MatmulLibrary library = chosen.load(std::memory_order_relaxed);
  return library == MatmulLibrary::kAuto ? prefers_onednn() : library == MatmulLibrary::kOneDnn;
}

// Whether a product of these sizes is worth it: a new shape costs as much as 40 million multiply-adds. Shapes that come
// again and again, as those of whole batches of images do, are mostly multiples of 32 rows; those of packed sentences
// are new each time.
bool is_worth_it(int64_t m, int64_t n, int64_t k) {
  const int64_t multiply_adds = m * n * k;
  return multiply_adds >= 200'000'000 || (multiply_adds >= 1'000'000 && m % 32 == 0);
}

// a (m, k) times b (k, n).
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return call_onednn(a, b.t(), std::nullopt);
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return call_onednn(x, weight, bias);  // (rows, out)
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &grad = grads[0];
    // A derivative of this derivative is wanted: torch's own products have one.
    const bool again = at::GradMode::is_enabled();
    at::Tensor grad_x, grad_weight, grad_bias;
    if (context->needs_input_grad(0)) grad_x = again ? at::mm(grad, weight) : product(grad, weight);
    if (context->needs_input_grad(1)) {
      if (again) {
        grad_weight = at::mm(grad.t(), x);
      } else {
        // oneDNN is faster with the longer side in the columns.
        grad_weight = weight.size(0) > weight.size(1) ? product(x.t(), grad).t() : product(grad.t(), x);
      }
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) grad_bias = grad.sum(0);
    return {grad_x, grad_weight, grad_bias};
  }
};

}  // namespace

void set_matmul_library(MatmulLibrary library) {
  if (library == MatmulLibrary::kOneDnn && !onednn_works()) {
    fail_usage("runtime.matmul: onednn was asked for, but this LibTorch comes without it");
  }
  chosen = library;
}

std::string matmul_library() {
  return uses_onednn() ? "oneDNN" : "MKL";
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const bool plain = x.is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
                     !is_tracing() && !at::autocast::is_autocast_enabled(at::kCPU);
  if (!plain || !uses_onednn()) return at::linear(x, weight, bias);
  const int64_t in = weight.size(1), out = weight.size(0);
  if (x.size(-1) != in || !is_worth_it(x.numel() / in, out, in)) return at::linear(x, weight, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = out;
  return LinearFunction::apply(x.reshape({-1, in}), weight, bias.defined() ? std::optional(bias) : std::nullopt)
      .view(sizes);  // (..., out)
}

}  // namespace fovea::nn
