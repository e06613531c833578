#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

/// softmax(scale * q k^T + bias) v for every head, exactly, without ever writing the weights to memory
/// (Dao et al., "FlashAttention", 2022, and "FlashAttention-2", 2023). Memory is linear in the lengths.
///
/// In Python, after `torch.ops.load_library("libfovea_ops.so")`: `torch.ops.fovea.flash_attention(q, k, v, ...)`.
namespace fovea::ops {

/// Two layouts of one thing:
///   padded  query (batch, heads, queries, d), key (batch, heads, keys, d), value (batch, heads, keys, d_v)
///   packed  query (total_q, heads, d), key (total_k, heads, d), value (total_k, heads, d_v), with both offsets
/// 1 <= d, d_v <= 256. float32, float64, bfloat16, float16, all three alike. Any strides: tensors whose last axis is
/// contiguous are used where they lie, others are copied.
struct FlashAttentionArguments {
  /// Packed only: where each sequence starts, int32 (batch + 1), contiguous, on the device of the query.
  at::Tensor query_offsets = {}, key_offsets = {};
  /// Padded only, int64 (batch), on the device of the query: the queries from there on are not computed. Their
  /// content is never read, their output and gradients are 0.
  at::Tensor query_lens = {};
  /// Padded only, int64 (batch) or (batch, queries): how many keys there are. Keys beyond the longest of a sequence
  /// are never read, their gradients are 0. Lengths outside [0, keys] count as 0 and as keys.
  at::Tensor valid_lens = {};
  /// Packed only: the longest sequences, known on the host so that no device is asked. On the CPU 0 will do.
  int64_t max_query = 0, max_key = 0;
  /// Query i of a sequence stands at position p = i + keys - queries (bottom right; its own lengths when packed, the
  /// tensors' sizes when padded). Causal: it sees the keys j <= p. Window: p - window_left <= j <= p + window_right,
  /// -1 for no bound. All restrictions intersect.
  bool causal = false;
  int64_t window_left = -1, window_right = -1;
  /// Added to the scaled scores: broadcastable to (batch, heads, queries, keys), for packed sequences to
  /// (batch, heads, max_query, max_key). The query's dtype; -inf forbids. Has a gradient, for which alone memory
  /// grows with queries x keys.
  at::Tensor bias = {};
  /// Share of the weights that fall, exactly those that ops::dropout(weights, rng, dropout_p) would drop: by
  /// (sequence, head, query, key), whatever the layout, tiling and threads. rng: int64 (3) on the CPU.
  double dropout_p = 0;
  at::Tensor rng = {};
  /// 1 / sqrt(d) by default.
  std::optional<double> scale = std::nullopt;
};

/// Returns (output, lse): output like the query with d_v for d; lse, the logarithm of the sum of the exponentials
/// (natural, before dropout), has output's shape without the last axis, float32 (float64 for float64), and is not
/// differentiable. A query that sees no key has output 0, lse -inf and gradient 0; NaN in what it
/// sees makes its output NaN.
///
/// Deterministic: the same bits whatever the number of threads. Differentiable once, backward: a second derivative and
/// a forward-mode one (torch.func.jvp) throw.
/// Under autocast the inputs are cast to its lower precision. Throws c10::Error naming the offending value for
/// shapes, dtypes, devices, offsets or p that do not fit.
std::tuple<at::Tensor, at::Tensor> flash_attention(const at::Tensor& query, const at::Tensor& key,
                                                   const at::Tensor& value,
                                                   const FlashAttentionArguments& arguments = {});

/// Whether a kernel for this kind of device is loaded.
bool has_flash_attention(at::DeviceType device);

}  // namespace fovea::ops
