#include "fovea/ops/flash_attention.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "fovea/ops/flash_attention_problem.h"
#include "fovea/ops/forward_mode.h"

namespace fovea::ops {
namespace {

using Result = std::tuple<at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Result forward_op(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  FOVEA_FLASH_ATTENTION_PARAMETERS) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("fovea::flash_attention", "")
          .typed<Result(const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                        const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, c10::SymInt, c10::SymInt,
                        bool, int64_t, int64_t, const OptionalTensor&, double, const OptionalTensor&,
                        std::optional<double>)>();
  return op.call(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
}

Gradients backward_op(const at::Tensor& grad_output, const at::Tensor& query, const at::Tensor& key,
                      const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                      FOVEA_FLASH_ATTENTION_PARAMETERS, bool bias_grad) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("fovea::flash_attention_backward", "")
          .typed<Gradients(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                           const at::Tensor&, const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                           const OptionalTensor&, const OptionalTensor&, c10::SymInt, c10::SymInt, bool, int64_t,
                           int64_t, const OptionalTensor&, double, const OptionalTensor&, std::optional<double>,
                           bool)>();
  return op.call(grad_output, query, key, value, output, lse, FOVEA_FLASH_ATTENTION_ARGUMENTS, bias_grad);
}

OptionalTensor optional(const at::Tensor& t) {
  return t.defined() ? OptionalTensor(t) : std::nullopt;
}

bool wants_gradient(const OptionalTensor& t) {
  return t.has_value() && t->defined() && t->requires_grad();
}

class FlashAttentionFunction : public torch::autograd::Function<FlashAttentionFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, FOVEA_FLASH_ATTENTION_PARAMETERS) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [output, lse] = forward_op(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
    const at::Tensor none;
    context->save_for_backward({query, key, value, output, lse, query_offsets.value_or(none),
                                key_offsets.value_or(none), query_lens.value_or(none), valid_lens.value_or(none),
                                bias.value_or(none), rng.value_or(none)});
    auto& data = context->saved_data;
    data["max_query"] = max_query;
    data["max_key"] = max_key;
    data["causal"] = causal;
    data["window_left"] = window_left;
    data["window_right"] = window_right;
    data["dropout_p"] = dropout_p;
    data["scale"] = scale;
    data["bias_grad"] = wants_gradient(bias);
    context->mark_non_differentiable({lse});
    return {output, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const bool bias_grad = data["bias_grad"].toBool();
    auto [dq, dk, dv, dbias] = backward_op(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], optional(saved[5]), optional(saved[6]),
        optional(saved[7]), optional(saved[8]), data["max_query"].toSymInt(), data["max_key"].toSymInt(),
        data["causal"].toBool(), data["window_left"].toInt(), data["window_right"].toInt(), optional(saved[9]),
        data["dropout_p"].toDouble(), optional(saved[10]), data["scale"].toOptional<double>(), bias_grad);
    variable_list result(16);
    result[0] = dq;
    result[1] = dk;
    result[2] = dv;
    if (bias_grad) result[12] = dbias;
    return result;
  }
};

Result flash_attention_autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                FOVEA_FLASH_ATTENTION_PARAMETERS) {
  refuse_tangent("flash_attention", "query", query);
  refuse_tangent("flash_attention", "key", key);
  refuse_tangent("flash_attention", "value", value);
  if (bias.has_value()) refuse_tangent("flash_attention", "bias", *bias);
  if (!at::GradMode::is_enabled() ||
      !(query.requires_grad() || key.requires_grad() || value.requires_grad() || wants_gradient(bias))) {
    at::AutoDispatchBelowADInplaceOrView below;
    return forward_op(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  }
  auto results = FlashAttentionFunction::apply(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  return {results[0], results[1]};
}

// (batch, heads, steps, dim) that lies in memory as (batch, steps, heads, dim), as projections make and take it.
at::Tensor empty_heads(const at::Tensor& like, const c10::SymInt& dim) {
  auto sizes = like.sym_sizes().vec();
  sizes.back() = dim;
  if (sizes.size() != 4) return at::empty_symint(sizes, like.options());
  std::swap(sizes[1], sizes[2]);
  return at::empty_symint(sizes, like.options()).transpose(1, 2);
}

Result flash_attention_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            FOVEA_FLASH_ATTENTION_PARAMETERS) {
  const bool packed = query_offsets.has_value() || key_offsets.has_value();
  TORCH_CHECK(query.dim() == (packed ? 3 : 4) && key.dim() == query.dim() && value.dim() == query.dim(),
              "flash_attention: query, key and value must have ", packed ? 3 : 4, " dimensions, got ", query.dim(),
              ", ", key.dim(), " and ", value.dim());
  (void)query_lens, (void)valid_lens, (void)max_query, (void)max_key, (void)causal, (void)window_left;
  (void)window_right, (void)bias, (void)dropout_p, (void)rng, (void)scale;
  auto lse_sizes = query.sym_sizes().vec();
  lse_sizes.pop_back();
  const auto lse_type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {empty_heads(query, value.sym_size(-1)), at::empty_symint(lse_sizes, query.options().dtype(lse_type))};
}

Gradients flash_attention_backward_meta(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const at::Tensor&, const at::Tensor&,
                                        const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                        const OptionalTensor&, c10::SymInt, c10::SymInt, bool, int64_t, int64_t,
                                        const OptionalTensor& bias, double, const OptionalTensor&,
                                        std::optional<double>, bool bias_grad) {
  return {empty_heads(query, query.sym_size(-1)), empty_heads(key, key.sym_size(-1)),
          empty_heads(value, value.sym_size(-1)),
          bias_grad && bias.has_value() ? at::empty_symint(bias->sym_sizes(), bias->options())
                                        : at::empty({0}, query.options())};
}

template <at::DeviceType kDevice, c10::DispatchKey kKey>
Result flash_attention_autocast(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                FOVEA_FLASH_ATTENTION_PARAMETERS) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kKey);
  const auto type = at::autocast::get_autocast_dtype(kDevice);
  const auto cast = [&](const at::Tensor& t) { return at::autocast::cached_cast(type, t, kDevice); };
  const OptionalTensor cast_bias = bias.has_value() && bias->defined() ? OptionalTensor(cast(*bias)) : std::nullopt;
  return forward_op(cast(query), cast(key), cast(value), query_offsets, key_offsets, query_lens, valid_lens, max_query,
                    max_key, causal, window_left, window_right, cast_bias, dropout_p, rng, scale);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> flash_attention(const at::Tensor& query, const at::Tensor& key,
                                                   const at::Tensor& value, const FlashAttentionArguments& a) {
  return forward_op(query, key, value, optional(a.query_offsets), optional(a.key_offsets), optional(a.query_lens),
                    optional(a.valid_lens), a.max_query, a.max_key, a.causal, a.window_left, a.window_right,
                    optional(a.bias), a.dropout_p, optional(a.rng), a.scale);
}

bool has_flash_attention(at::DeviceType device) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fovea::flash_attention", "");
  return op.hasKernelForDispatchKey(c10::computeDispatchKey(std::nullopt, at::kStrided, device));
}

}  // namespace fovea::ops

#define FOVEA_FLASH_ATTENTION_SCHEMA                                                                         \
  "Tensor? query_offsets=None, Tensor? key_offsets=None, Tensor? query_lens=None, Tensor? valid_lens=None, " \
  "SymInt max_query=0, SymInt max_key=0, bool causal=False, int window_left=-1, int window_right=-1, "       \
  "Tensor? bias=None, float dropout_p=0.0, Tensor? rng=None, float? scale=None"

TORCH_LIBRARY_FRAGMENT(fovea, library) {
  library.def("flash_attention(Tensor query, Tensor key, Tensor value, *, " FOVEA_FLASH_ATTENTION_SCHEMA
              ") -> (Tensor output, Tensor lse)");
  library.def(
      "flash_attention_backward(Tensor grad_output, Tensor query, Tensor key, Tensor value, Tensor output, Tensor lse, "
      "*, " FOVEA_FLASH_ATTENTION_SCHEMA
      ", bool bias_grad=False) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_bias)");
}

TORCH_LIBRARY_IMPL(fovea, Meta, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_meta);
  library.impl("flash_attention_backward", fovea::ops::flash_attention_backward_meta);
}
TORCH_LIBRARY_IMPL(fovea, Autograd, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_autograd);
  library.impl("flash_attention_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(fovea, AutocastCPU, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_autocast<at::kCPU, c10::DispatchKey::AutocastCPU>);
}
TORCH_LIBRARY_IMPL(fovea, AutocastCUDA, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_autocast<at::kCUDA, c10::DispatchKey::AutocastCUDA>);
}
