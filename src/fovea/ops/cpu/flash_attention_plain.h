#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/ops/cpu/flash_attention_kernel.h"

/// Attention of one head in plain loops: what runs for double, and where there is no SIMD.
namespace fovea::ops {

template <typename T>
bool attention_keeps(const AttentionDropout& d, int64_t row, int64_t column) {
  if (d.threshold == 0) return true;
  const auto words =
      philox(element_counter(static_cast<uint32_t>(column / 4), static_cast<uint32_t>(row), d.sequence, d.head), d.key);
  return words[static_cast<size_t>(column % 4)] >= d.threshold;
}

template <typename T>
T attention_score(const AttentionHead<T>& h, int64_t i, int64_t j) {
  T sum = 0;
  const T *q = h.query + i * h.query_stride, *k = h.key + j * h.key_stride;
  for (int64_t c = 0; c < h.head_dim; ++c) sum += q[c] * k[c];
  sum *= static_cast<T>(h.scale);
  return h.bias == nullptr ? sum : sum + h.bias[i * h.bias_row_stride + j * h.bias_column_stride];
}

template <typename T>
void attention_forward_plain(const AttentionHead<T>& h, int64_t begin, int64_t end, T* scores) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t from = h.row_begin(i), to = h.row_end(i);
    T largest = -kInfinity;
    for (int64_t j = from; j < to; ++j) {
      scores[j] = attention_score(h, i, j);
      if (scores[j] > largest || std::isnan(scores[j])) largest = scores[j];
    }
    T sum = 0;
    T* out = h.output + i * h.output_stride;
    std::fill(out, out + h.value_dim, T{0});
    for (int64_t j = from; j < to && largest != -kInfinity; ++j) {
      const T weight = std::exp(scores[j] - largest);
      sum += weight;
      if (!attention_keeps<T>(h.dropout, i, j)) continue;
      const T* v = h.value + j * h.value_stride;
      for (int64_t c = 0; c < h.value_dim; ++c) out[c] += weight * v[c];
    }
    const T factor = sum == 0 ? T{0} : static_cast<T>(h.dropout.keep_scale) / sum;
    for (int64_t c = 0; c < h.value_dim; ++c) out[c] *= factor;
    h.lse[i * h.lse_stride] = sum == 0 ? -kInfinity : largest + std::log(sum);
  }
}

template <typename T>
void attention_backward_plain(const AttentionHead<T>& h, int64_t begin, int64_t end, T* grad_query_sum) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const int64_t sum_stride = attention_padded_dim(h.head_dim);
  for (int64_t j = begin; j < end; ++j) {
    T *dk = h.grad_key + j * h.grad_key_stride, *dv = h.grad_value + j * h.grad_value_stride;
    std::fill(dk, dk + h.head_dim, T{0});
    std::fill(dv, dv + h.value_dim, T{0});
  }
  for (int64_t i = 0; i < h.queries; ++i) {
    const T lse = h.lse[i * h.lse_stride];
    const T *out = h.output + i * h.output_stride, *dout = h.grad_output + i * h.grad_output_stride;
    const T* q = h.query + i * h.query_stride;
    T* dq = grad_query_sum + i * sum_stride;
    T delta = 0;
    for (int64_t c = 0; c < h.value_dim; ++c) delta += out[c] * dout[c];
    const int64_t to = std::min(end, h.row_end(i));
    for (int64_t j = std::max(begin, h.row_begin(i)); j < to && lse != -kInfinity; ++j) {
      const T weight = std::exp(attention_score(h, i, j) - lse);
      const T kept = attention_keeps<T>(h.dropout, i, j) ? static_cast<T>(h.dropout.keep_scale) : T{0};
      const T *k = h.key + j * h.key_stride, *v = h.value + j * h.value_stride;
      T *dk = h.grad_key + j * h.grad_key_stride, *dv = h.grad_value + j * h.grad_value_stride;
      T dweight = 0;
      for (int64_t c = 0; c < h.value_dim; ++c) {
        dweight += dout[c] * v[c];
        dv[c] += weight * kept * dout[c];
      }
      const T dscore = weight * (dweight * kept - delta);
      if (h.grad_bias != nullptr) h.grad_bias[i * h.grad_bias_stride + j] += dscore;
      for (int64_t c = 0; c < h.head_dim; ++c) {
        dq[c] += dscore * k[c];
        dk[c] += dscore * static_cast<T>(h.scale) * q[c];
      }
    }
  }
}

template <typename T>
void attention_finish_query_plain(const T* sums, int64_t parts, int64_t part_stride, const AttentionHead<T>& h, T* out,
                                  int64_t out_stride) {
  const int64_t row_size = attention_padded_dim(h.head_dim);
  for (int64_t i = 0; i < h.queries; ++i) {
    for (int64_t c = 0; c < h.head_dim; ++c) {
      T sum = 0;
      for (int64_t p = 0; p < parts; ++p) sum += sums[p * part_stride + i * row_size + c];
      out[i * out_stride + c] = sum * static_cast<T>(h.scale);
    }
  }
}

}  // namespace fovea::ops
