// One attention problem for the CUDA kernels on the CPU: random inputs, a reference in double, the kernels' results.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "fovea/ops/cuda/device.h"
#include "fovea/ops/cuda/flash_params.h"

namespace fovea_tests::cuda_host {

using fovea::ops::cuda::FlashParams;
using fovea::ops::cuda::Strides;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

enum class Type { kBFloat16, kFloat16, kFloat32 };

/// (batch, heads, rows, channels) or packed (total, heads, channels); 16-bit ones with channels rounded up to a
/// multiple of 8. `heads_inside`: padded tensors lie as (batch, rows, heads, channels), as a transposed view would.
struct Values {
  Type type = Type::kBFloat16;
  std::vector<uint16_t> halves;
  std::vector<float> floats;
  Strides strides;

  void allocate(Type of_type, int64_t count) {
    type = of_type;
    if (type == Type::kFloat32) {
      floats.assign(static_cast<size_t>(count), kNan);
    } else {
      halves.assign(static_cast<size_t>(count), 0x7FFF);
    }
  }
  void allocate(Type of_type, int batch, int heads, int rows, int channels, bool packed, bool heads_inside) {
    const int64_t c = of_type == Type::kFloat32 ? channels : (channels + 7) / 8 * 8;
    if (packed || heads_inside) {
      strides = {packed ? 0 : rows * heads * c, c, heads * c};
    } else {
      strides = {heads * rows * c, rows * c, c};
    }
    allocate(of_type, (packed ? 1 : batch) * heads * rows * c);
  }
  void* data() { return type == Type::kFloat32 ? static_cast<void*>(floats.data()) : halves.data(); }
  int64_t size() const { return static_cast<int64_t>(type == Type::kFloat32 ? floats.size() : halves.size()); }
  int64_t index(int64_t batch, int64_t head, int64_t row) const {
    return batch * strides.batch + head * strides.head + row * strides.row;
  }
  double get(int64_t i) const {
    namespace cuda = fovea::ops::cuda;
    const auto at = static_cast<size_t>(i);
    if (type == Type::kFloat32) return floats[at];
    return type == Type::kFloat16 ? cuda::from_bits(cuda::Float16{}, halves[at])
                                  : cuda::from_bits(cuda::BFloat16{}, halves[at]);
  }
  void set(int64_t i, double x) {
    namespace cuda = fovea::ops::cuda;
    const auto at = static_cast<size_t>(i);
    const auto value = static_cast<float>(x);
    if (type == Type::kFloat32) {
      floats[at] = value;
    } else {
      halves[at] = static_cast<uint16_t>(type == Type::kFloat16 ? cuda::to_bits(cuda::Float16{}, value)
                                                                : cuda::to_bits(cuda::BFloat16{}, value));
    }
  }
};

struct AttentionCase {
  std::string name;
  int batch = 1, heads = 1, queries = 16, keys = 16, head_dim = 64, value_dim = 0;  // 0: as head_dim
  Type type = Type::kBFloat16;
  bool causal = false, heads_inside = false;
  int window_left = -1, window_right = -1;
  std::vector<int> query_lens = {}, valid_lens = {};  // valid_lens: one per sequence, or per query too
  std::vector<int> packed_queries = {}, packed_keys = {};
  // Which dimensions of the bias have size 1, as a mask: 1 batch, 2 heads, 4 queries, 8 keys. -1: no bias.
  int bias = -1;
  bool bias_forbids = false;  // some of it is -inf, a whole row among it
  double dropout = 0;
  double scale = 0;   // 0: 1 / sqrt(head_dim)
  double spread = 1;  // of the inputs
};

/// The inputs and outputs of a case with the parameters that point at them. Not movable: pointers would dangle.
class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionCase& c);
  AttentionProblem(const AttentionProblem&) = delete;
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  FlashParams params;

  struct Errors {
    // Largest difference to the reference over the reference's largest element, in units of the type's epsilon.
    double output = 0, lse = 0, grad_query = 0, grad_key = 0, grad_value = 0, grad_bias = 0;
    std::string wrong;  // what is not a matter of accuracy
  };
  Errors compare(bool with_gradients);

 private:
  int rows_of(int b, bool query) const;
  int64_t first_row(int b, bool query) const;
  bool allowed(int b, int i, int j) const;
  int64_t bias_index(int b, int h, int i, int j) const;

  AttentionCase c_;
  bool packed_;
  Values query_, key_, value_, output_, grad_output_, grad_query_, grad_key_, grad_value_, bias_;
  std::vector<float> lse_, delta_, grad_bias_;
  std::vector<int32_t> query_offsets_, key_offsets_;
  std::vector<int64_t> query_lens_, valid_lens_;
};

// ---- Inputs ------------------------------------------------------------------------------------

inline int AttentionProblem::rows_of(int b, bool query) const {
  if (packed_) return (query ? c_.packed_queries : c_.packed_keys)[static_cast<size_t>(b)];
  return query ? c_.queries : c_.keys;
}

inline int64_t AttentionProblem::first_row(int b, bool query) const {
  return packed_ ? (query ? query_offsets_ : key_offsets_)[static_cast<size_t>(b)] : 0;
}

inline bool AttentionProblem::allowed(int b, int i, int j) const {
  if (!query_lens_.empty() && i >= query_lens_[static_cast<size_t>(b)]) return false;
  if (valid_lens_.size() == static_cast<size_t>(c_.batch) && j >= valid_lens_[static_cast<size_t>(b)]) return false;
  if (params.valid_lens_query != 0 && j >= valid_lens_[static_cast<size_t>(b * c_.queries + i)]) return false;
  const int position = i + rows_of(b, false) - rows_of(b, true);
  if (c_.causal && j > position) return false;
  if (c_.window_left >= 0 && j < position - c_.window_left) return false;
  return c_.window_right < 0 || j <= position + c_.window_right;
}

inline int64_t AttentionProblem::bias_index(int b, int h, int i, int j) const {
  return b * params.bias_batch + h * params.bias_head + i * params.bias_query + j * params.bias_key;
}

inline AttentionProblem::AttentionProblem(const AttentionCase& c) : c_(c), packed_(!c.packed_queries.empty()) {
  if (c_.value_dim == 0) c_.value_dim = c_.head_dim;
  if (packed_) {
    c_.batch = static_cast<int>(c_.packed_queries.size());
    query_offsets_ = {0};
    key_offsets_ = {0};
    for (const int n : c_.packed_queries) query_offsets_.push_back(query_offsets_.back() + n);
    for (const int n : c_.packed_keys) key_offsets_.push_back(key_offsets_.back() + n);
    c_.queries = *std::max_element(c_.packed_queries.begin(), c_.packed_queries.end());
    c_.keys = *std::max_element(c_.packed_keys.begin(), c_.packed_keys.end());
    params.query_offsets = query_offsets_.data();
    params.key_offsets = key_offsets_.data();
  }
  const int query_rows = packed_ ? query_offsets_.back() : c_.queries;
  const int key_rows = packed_ ? key_offsets_.back() : c_.keys;
  std::mt19937 random(1234);
  const auto allocate = [&](Values& t, int rows, int channels, bool heads_inside) {
    t.allocate(c_.type, c_.batch, c_.heads, rows, channels, packed_, heads_inside);
  };
  for (auto* t : {&query_, &grad_query_}) allocate(*t, query_rows, c_.head_dim, c_.heads_inside);
  for (auto* t : {&key_, &grad_key_}) allocate(*t, key_rows, c_.head_dim, c_.heads_inside);
  for (auto* t : {&value_, &grad_value_}) allocate(*t, key_rows, c_.value_dim, c_.heads_inside);
  for (auto* t : {&output_, &grad_output_}) allocate(*t, query_rows, c_.value_dim, false);
  std::normal_distribution<double> spread_normal(0.0, c_.spread);
  for (auto* t : {&query_, &key_, &value_, &grad_output_}) {
    for (int64_t i = 0; i < t->size(); ++i) t->set(i, spread_normal(random));
  }
  const auto rows = static_cast<size_t>((packed_ ? 1 : c_.batch) * c_.heads * query_rows);
  lse_.assign(rows, kNan);
  delta_.assign(rows, kNan);

  query_lens_.assign(c_.query_lens.begin(), c_.query_lens.end());
  valid_lens_.assign(c_.valid_lens.begin(), c_.valid_lens.end());
  if (!query_lens_.empty()) params.query_lens = query_lens_.data();
  if (!valid_lens_.empty()) {
    params.valid_lens = valid_lens_.data();
    params.valid_lens_query = valid_lens_.size() == static_cast<size_t>(c_.batch) ? 0 : 1;
    params.valid_lens_batch = params.valid_lens_query == 0 ? 1 : c_.queries;
  }
  // What lies beyond the lengths must not matter. The channels up to a multiple of 8 are zeros.
  for (int b = 0; b < c_.batch; ++b) {
    int longest = c_.keys;
    if (params.valid_lens != nullptr) {
      longest = 0;
      for (int i = 0; i < (params.valid_lens_query == 0 ? 1 : c_.queries); ++i) {
        longest =
            std::max<int>(longest, static_cast<int>(valid_lens_[static_cast<size_t>(b * params.valid_lens_batch + i)]));
      }
    }
    for (int h = 0; h < c_.heads; ++h) {
      const auto poison = [&](Values& t, int from, int to, int channels, int64_t first) {
        for (int row = 0; row < to; ++row) {
          const int64_t at = t.index(b, h, first + row);
          for (int x = 0; row >= from && x < channels; ++x) t.set(at + x, kNan);
          for (int x = channels; c_.type != Type::kFloat32 && x < (channels + 7) / 8 * 8; ++x) t.set(at + x, 0);
        }
      };
      const int count = query_lens_.empty() ? rows_of(b, true) : c_.query_lens[static_cast<size_t>(b)];
      poison(query_, count, rows_of(b, true), c_.head_dim, first_row(b, true));
      poison(grad_output_, count, rows_of(b, true), c_.value_dim, first_row(b, true));
      poison(key_, longest, rows_of(b, false), c_.head_dim, first_row(b, false));
      poison(value_, longest, rows_of(b, false), c_.value_dim, first_row(b, false));
    }
  }

  params.query = query_.data();
  params.key = key_.data();
  params.value = value_.data();
  params.output = output_.data();
  params.lse = lse_.data();
  params.grad_output = grad_output_.data();
  params.delta = delta_.data();
  params.grad_query = grad_query_.data();
  params.grad_key = grad_key_.data();
  params.grad_value = grad_value_.data();
  params.query_strides = query_.strides;
  params.key_strides = key_.strides;
  params.value_strides = value_.strides;
  params.output_strides = output_.strides;
  params.grad_output_strides = grad_output_.strides;
  params.grad_query_strides = grad_query_.strides;
  params.grad_key_strides = grad_key_.strides;
  params.grad_value_strides = grad_value_.strides;
  params.lse_strides = packed_ ? Strides{0, 1, c_.heads} : Strides{int64_t{c_.heads} * c_.queries, c_.queries, 1};
  params.batch = c_.batch;
  params.heads = c_.heads;
  params.max_query = c_.queries;
  params.max_key = c_.keys;
  const int multiple = c_.type == Type::kFloat32 ? 1 : 8;
  params.head_dim = (c_.head_dim + multiple - 1) / multiple * multiple;
  params.value_dim = (c_.value_dim + multiple - 1) / multiple * multiple;
  params.window_left = c_.window_left;
  params.window_right = c_.window_right;
  params.causal = c_.causal;
  params.is_float16 = c_.type == Type::kFloat16;
  params.is_float32 = c_.type == Type::kFloat32;
  params.scale = static_cast<float>(c_.scale != 0 ? c_.scale : 1.0 / std::sqrt(c_.head_dim));
  if (c_.dropout > 0) {
    const int64_t rng[] = {3, 5, 7};
    const fovea::ops::DropoutDraw draw = fovea::ops::dropout_draw(rng, c_.dropout);
    params.philox = draw.key;
    params.drop_threshold = draw.threshold;
    params.keep_scale = static_cast<float>(draw.keep_scale);
  }
  if (c_.bias >= 0) {
    const int batches = (c_.bias & 1) != 0 ? 1 : c_.batch, heads = (c_.bias & 2) != 0 ? 1 : c_.heads;
    const int queries = (c_.bias & 4) != 0 ? 1 : c_.queries, keys = (c_.bias & 8) != 0 ? 1 : c_.keys;
    params.bias_key = keys == 1 ? 0 : 1;
    params.bias_query = queries == 1 ? 0 : keys;
    params.bias_head = heads == 1 ? 0 : queries * keys;
    params.bias_batch = batches == 1 ? 0 : heads * queries * keys;
    std::normal_distribution<double> normal;
    bias_.allocate(c_.type, int64_t{batches} * heads * queries * keys);
    for (int64_t i = 0; i < bias_.size(); ++i) {
      const bool forbids = c_.bias_forbids && (i % 3 == 0 || i / keys % queries == 2);
      bias_.set(i, forbids ? -INFINITY : normal(random));
    }
    params.bias = bias_.data();
    params.grad_bias_batches = batches;
    params.grad_bias_heads = heads;
    grad_bias_.assign(static_cast<size_t>(batches * heads * c_.queries * c_.keys), kNan);
    params.grad_bias = grad_bias_.data();
  }
}

// ---- The reference -----------------------------------------------------------------------------

inline AttentionProblem::Errors AttentionProblem::compare(bool with_gradients) {
  using Matrix = std::vector<double>;
  Errors errors;
  struct Largest {
    double error = 0, reference = 0;
    void see(double got, double expected, std::string& wrong, const char* what) {
      if (!std::isfinite(got) && wrong.empty()) wrong = std::string(what) + " is not finite or was not written";
      error = std::max(error, std::fabs(got - expected));
      reference = std::max(reference, std::fabs(expected));
    }
    double relative(double epsilon) const { return reference == 0 ? error * 1e6 : error / reference / epsilon; }
  };
  Largest output, lse, grad_query, grad_key, grad_value, grad_bias;
  Matrix bias_sums(grad_bias_.size());
  const int d = c_.head_dim, dv = c_.value_dim;
  const double scale = params.scale;
  for (int b = 0; b < c_.batch; ++b) {
    const int queries = rows_of(b, true), keys = rows_of(b, false);
    const int64_t q0 = first_row(b, true), k0 = first_row(b, false);
    for (int h = 0; h < c_.heads; ++h) {
      Matrix dk(static_cast<size_t>(keys * d)), dv_sums(static_cast<size_t>(keys * dv));
      for (int i = 0; i < queries; ++i) {
        Matrix weights(static_cast<size_t>(keys), -INFINITY), kept(static_cast<size_t>(keys), 1.0);
        double largest = -INFINITY, sum = 0;
        for (int j = 0; j < keys; ++j) {
          auto& w = weights[static_cast<size_t>(j)];
          if (!allowed(b, i, j)) continue;
          w = 0;
          for (int x = 0; x < d; ++x) {
            w += query_.get(query_.index(b, h, q0 + i) + x) * key_.get(key_.index(b, h, k0 + j) + x);
          }
          w *= scale;
          if (params.bias != nullptr) {
            w += bias_.get(bias_index(b, h, i, j));
          }
          largest = std::max(largest, w);
        }
        for (int j = 0; j < keys; ++j) {
          auto& w = weights[static_cast<size_t>(j)];
          w = w == -INFINITY ? 0 : std::exp(w - largest);
          sum += w;
          if (params.drop_threshold != 0) {
            const auto words =
                fovea::ops::philox(fovea::ops::element_counter(static_cast<uint32_t>(j / 4), static_cast<uint32_t>(i),
                                                               static_cast<uint32_t>(b), static_cast<uint32_t>(h)),
                                   params.philox);
            const bool keep = words[static_cast<size_t>(j % 4)] >= params.drop_threshold;
            kept[static_cast<size_t>(j)] = keep ? double{params.keep_scale} : 0.0;
          }
        }
        const float got_lse = lse_[static_cast<size_t>(b * params.lse_strides.batch + h * params.lse_strides.head +
                                                       (q0 + i) * params.lse_strides.row)];
        if (sum == 0) {
          if (got_lse != -INFINITY) errors.wrong = "the lse of a row without keys is not -infinity";
        } else {
          lse.see(got_lse, largest + std::log(sum), errors.wrong, "lse");
          for (auto& w : weights) w /= sum;
        }
        Matrix out(static_cast<size_t>(dv));
        for (int j = 0; j < keys; ++j) {
          const double w = weights[static_cast<size_t>(j)] * kept[static_cast<size_t>(j)];
          if (w == 0) continue;
          for (int x = 0; x < dv; ++x) {
            out[static_cast<size_t>(x)] += w * value_.get(value_.index(b, h, k0 + j) + x);
          }
        }
        double delta = 0;
        const bool counts = query_lens_.empty() || i < query_lens_[static_cast<size_t>(b)];
        for (int x = 0; x < dv; ++x) {
          const double o = out[static_cast<size_t>(x)];
          output.see(output_.get(output_.index(b, h, q0 + i) + x), o, errors.wrong, "the output");
          if (counts) delta += o * grad_output_.get(grad_output_.index(b, h, q0 + i) + x);
        }
        if (!with_gradients) continue;
        Matrix dq(static_cast<size_t>(d));
        for (int j = 0; j < keys; ++j) {
          const double w = weights[static_cast<size_t>(j)], keep = kept[static_cast<size_t>(j)];
          if (w == 0) continue;
          double product = 0;
          for (int x = 0; x < dv; ++x) {
            const double g = grad_output_.get(grad_output_.index(b, h, q0 + i) + x);
            product += g * value_.get(value_.index(b, h, k0 + j) + x);
            dv_sums[static_cast<size_t>(j * dv + x)] += w * keep * g;
          }
          const double ds = w * (keep * product - delta);
          // Where terms cancel, the rounding of the largest of them is what remains.
          const double term = w * (std::fabs(keep * product) + std::fabs(delta));
          grad_bias.reference = std::max(grad_bias.reference, term);
          for (int x = 0; x < d; ++x) {
            const auto see_term = [&](Largest& largest_of, double factor) {
              largest_of.reference = std::max(largest_of.reference, std::fabs(scale * term * factor));
            };
            see_term(grad_query, key_.get(key_.index(b, h, k0 + j) + x));
            see_term(grad_key, query_.get(query_.index(b, h, q0 + i) + x));
            dq[static_cast<size_t>(x)] += scale * ds * key_.get(key_.index(b, h, k0 + j) + x);
            dk[static_cast<size_t>(j * d + x)] += scale * ds * query_.get(query_.index(b, h, q0 + i) + x);
          }
          if (params.grad_bias != nullptr) {
            const int64_t slice = (params.grad_bias_batches == 1 ? 0 : b) * params.grad_bias_heads +
                                  (params.grad_bias_heads == 1 ? 0 : h);
            bias_sums[static_cast<size_t>((slice * c_.queries + i) * c_.keys + j)] += ds;
          }
        }
        for (int x = 0; x < d; ++x) {
          grad_query.see(grad_query_.get(grad_query_.index(b, h, q0 + i) + x), dq[static_cast<size_t>(x)], errors.wrong,
                         "dQ");
        }
      }
      for (int j = 0; with_gradients && j < keys; ++j) {
        for (int x = 0; x < d; ++x) {
          grad_key.see(grad_key_.get(grad_key_.index(b, h, k0 + j) + x), dk[static_cast<size_t>(j * d + x)],
                       errors.wrong, "dK");
        }
        for (int x = 0; x < dv; ++x) {
          grad_value.see(grad_value_.get(grad_value_.index(b, h, k0 + j) + x), dv_sums[static_cast<size_t>(j * dv + x)],
                         errors.wrong, "dV");
        }
      }
    }
  }
  for (size_t i = 0; with_gradients && params.grad_bias != nullptr && i < bias_sums.size(); ++i) {
    grad_bias.see(grad_bias_[i], bias_sums[i], errors.wrong, "dbias");
  }
  const double epsilon = c_.type == Type::kFloat32 ? 0x1p-24 : c_.type == Type::kFloat16 ? 0x1p-11 : 0x1p-8;
  errors.output = output.relative(epsilon);
  errors.lse = lse.error / std::max(1.0, lse.reference) / 0x1p-24;
  errors.grad_query = grad_query.relative(epsilon);
  errors.grad_key = grad_key.relative(epsilon);
  errors.grad_value = grad_value.relative(epsilon);
  errors.grad_bias = grad_bias.relative(epsilon);
  return errors;
}

}  // namespace fovea_tests::cuda_host
