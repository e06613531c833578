#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "fovea/ops/cpu/flash_attention_kernel.h"
#include "fovea/ops/flash_attention_problem.h"

/// How flash_attention's work on the CPU is cut into heads on raw pointers, and how threads share it.
namespace fovea::ops {

// Memory of one thread, kept for the next call.
template <typename T>
T* scratch(int64_t count) {
  struct Free {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<void, Free> memory;
  thread_local int64_t size = 0;
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  if (bytes > size) {
    memory.reset();
    size = bytes + bytes / 4;
    memory.reset(::operator new (static_cast<size_t>(size), std::align_val_t{64}));
  }
  return static_cast<T*>(memory.get());
}

// Runs task(0) .. task(count - 1), each thread taking the next few when it is done: tasks differ in length.
template <typename Task>
void run_tasks(int64_t count, double work, const Task& task) {
  constexpr double kWorthThreads = 2e5;  // multiply-adds; below that, waking a thread costs more
  const int64_t threads = work < kWorthThreads ? 1 : std::min<int64_t>(at::get_num_threads(), count);
  const int64_t chunk = std::max<int64_t>(1, count / (threads * 16));
  std::atomic<int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
    for (int64_t begin; (begin = next.fetch_add(chunk)) < count;) {
      for (int64_t i = begin; i < std::min(begin + chunk, count); ++i) task(i);
    }
  });
}

// One sequence: where its rows begin when packed, and how many count.
struct Sequence {
  int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
  int64_t all_queries = 0, all_keys = 0;  // with the padding
  const int64_t* row_lens = nullptr;
};

inline std::vector<Sequence> sequences_of(const FlashAttentionProblem& p, const OptionalTensor& query_offsets,
                                          const OptionalTensor& key_offsets, const at::Tensor& query_lens,
                                          const at::Tensor& valid_lens) {
  std::vector<Sequence> sequences(static_cast<size_t>(p.batch));
  for (int64_t b = 0; b < p.batch; ++b) {
    Sequence& s = sequences[static_cast<size_t>(b)];
    if (p.packed) {
      const auto *q = query_offsets->const_data_ptr<int32_t>(), *k = key_offsets->const_data_ptr<int32_t>();
      s.first_query = q[b];
      s.first_key = k[b];
      s.queries = s.all_queries = q[b + 1] - q[b];
      s.keys = s.all_keys = k[b + 1] - k[b];
      continue;
    }
    s.queries = s.all_queries = p.queries;
    s.keys = s.all_keys = p.keys;
    if (query_lens.defined()) {
      s.queries = std::clamp<int64_t>(query_lens.const_data_ptr<int64_t>()[b], 0, p.queries);
    }
    if (!valid_lens.defined()) continue;
    const int64_t* lens = valid_lens.const_data_ptr<int64_t>();
    if (valid_lens.dim() == 1) {
      s.keys = std::clamp<int64_t>(lens[b], 0, p.keys);
    } else {
      s.row_lens = lens + b * p.queries;
      const int64_t longest = s.queries > 0 ? *std::max_element(s.row_lens, s.row_lens + s.queries) : 0;
      s.keys = std::clamp<int64_t>(longest, 0, p.keys);
    }
  }
  return sequences;
}

// A 3- or 4-dimensional tensor seen head by head.
template <typename T>
struct Heads {
  T* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  Heads() = default;
  explicit Heads(const at::Tensor& t) {
    if constexpr (std::is_const_v<T>) {
      data = t.const_data_ptr<std::remove_const_t<T>>();
    } else {
      data = t.mutable_data_ptr<T>();
    }
    if (t.dim() == 3) {  // (total, heads, dim)
      head_stride = t.stride(1);
      row_stride = t.stride(0);
    } else {  // (batch, heads, steps, dim)
      batch_stride = t.stride(0);
      head_stride = t.stride(1);
      row_stride = t.stride(2);
    }
  }
  T* at(int64_t b, int64_t h, int64_t row) const {
    // A tensor without elements has no address to count from.
    return data == nullptr ? nullptr : data + b * batch_stride + h * head_stride + row * row_stride;
  }
};

inline at::Tensor with_contiguous_rows(const at::Tensor& t) {
  return t.numel() == 0 || t.stride(-1) == 1 || t.size(-1) == 1 ? t : t.contiguous();
}

// lse without its last axis cannot say so to Heads; this makes it (..., 1).
inline at::Tensor as_rows(const at::Tensor& lse) {
  return lse.unsqueeze(-1);
}

inline at::Tensor empty_heads(const at::Tensor& like, int64_t dim) {
  auto sizes = like.sizes().vec();
  sizes.back() = dim;
  if (sizes.size() != 4) return at::empty(sizes, like.options());
  std::swap(sizes[1], sizes[2]);
  return at::empty(sizes, like.options()).transpose(1, 2);
}

// A result of more than this has left the caches before anyone reads it.
inline constexpr int64_t kStreamedBytes = 8 << 20;

// What forward and backward have in common: the problem, its sequences, and their heads on raw pointers.
template <typename T>
struct Work {
  FlashAttentionProblem problem;
  std::vector<Sequence> sequences;
  Heads<const T> query, key, value;
  Heads<T> output, lse;
  AttentionDropout dropout;
  bool stream = false;

  AttentionHead<T> head(int64_t b, int64_t h) const {
    const Sequence& s = sequences[static_cast<size_t>(b)];
    AttentionHead<T> a;
    a.query = query.at(b, h, s.first_query);
    a.key = key.at(b, h, s.first_key);
    a.value = value.at(b, h, s.first_key);
    a.query_stride = query.row_stride;
    a.key_stride = key.row_stride;
    a.value_stride = value.row_stride;
    a.queries = s.queries;
    a.keys = s.keys;
    a.head_dim = problem.head_dim;
    a.value_dim = problem.value_dim;
    a.scale = problem.scale;
    const int64_t shift = s.all_keys - s.all_queries;
    if (problem.window_left >= 0) a.first = shift - problem.window_left;
    if (problem.window_right >= 0) a.last = shift + problem.window_right;
    a.row_lens = s.row_lens;
    if (problem.bias.defined()) {
      a.bias = problem.bias.const_data_ptr<T>() + b * problem.bias.stride(0) + h * problem.bias.stride(1);
      a.bias_row_stride = problem.bias.stride(2);
      a.bias_column_stride = problem.bias.stride(3);
    }
    a.dropout = dropout;
    a.stream = stream;
    a.dropout.sequence = static_cast<uint32_t>(b);
    a.dropout.head = static_cast<uint32_t>(h);
    a.output = output.at(b, h, s.first_query);
    a.output_stride = output.row_stride;
    a.lse = lse.at(b, h, s.first_query);
    a.lse_stride = lse.row_stride;
    return a;
  }

  // Multiply-adds of one product, masks aside.
  double work() const {
    double sum = 0;
    for (const auto& s : sequences) sum += static_cast<double>(s.queries) * static_cast<double>(s.keys);
    return sum * static_cast<double>(problem.heads * problem.head_dim);
  }
};

template <typename T>
Work<T> make_work(const FlashAttentionProblem& problem, const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                  const OptionalTensor& query_offsets, const OptionalTensor& key_offsets, const at::Tensor& query_lens,
                  const at::Tensor& valid_lens, double dropout_p, const OptionalTensor& rng) {
  Work<T> w{problem,
            sequences_of(problem, query_offsets, key_offsets, query_lens, valid_lens),
            Heads<const T>(query),
            Heads<const T>(key),
            Heads<const T>(value),
            Heads<T>(output),
            Heads<T>(as_rows(lse)),
            {},
            static_cast<int64_t>(query.numel() * sizeof(T)) > kStreamedBytes};
  if (dropout_p > 0) static_cast<DropoutDraw&>(w.dropout) = dropout_draw(rng->const_data_ptr<int64_t>(), dropout_p);
  return w;
}

}  // namespace fovea::ops
