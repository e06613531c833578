// flash_attention on the CPU: which piece of work goes where. The arithmetic is in the kernels.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "fovea/ops/cpu/flash_attention_kernel.h"
#include "fovea/ops/flash_attention_problem.h"

namespace fovea::ops {
namespace {

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

std::vector<Sequence> sequences_of(const FlashAttentionProblem& p, const OptionalTensor& query_offsets,
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

at::Tensor with_contiguous_rows(const at::Tensor& t) {
  return t.numel() == 0 || t.stride(-1) == 1 || t.size(-1) == 1 ? t : t.contiguous();
}

// lse without its last axis cannot say so to Heads; this makes it (..., 1).
at::Tensor as_rows(const at::Tensor& lse) {
  return lse.unsqueeze(-1);
}

at::Tensor empty_heads(const at::Tensor& like, int64_t dim) {
  auto sizes = like.sizes().vec();
  sizes.back() = dim;
  if (sizes.size() != 4) return at::empty(sizes, like.options());
  std::swap(sizes[1], sizes[2]);
  return at::empty(sizes, like.options()).transpose(1, 2);
}

// A result of more than this has left the caches before anyone reads it.
constexpr int64_t kStreamedBytes = 8 << 20;

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
  if (dropout_p > 0) {
    const int64_t* words = rng->const_data_ptr<int64_t>();
    w.dropout.key =
        philox_key(static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1]), static_cast<uint64_t>(words[2]));
    w.dropout.threshold = drop_threshold(dropout_p);
    w.dropout.keep_scale = dropout_p < 1.0 ? 1.0 / (1.0 - dropout_p) : 0.0;
  }
  return w;
}

template <typename T>
void zero_rows(T* rows, int64_t stride, int64_t begin, int64_t end, int64_t columns) {
  for (int64_t i = begin; i < end; ++i) std::fill_n(rows + i * stride, columns, T{0});
}

struct Task {
  int32_t sequence, head;
  int64_t begin, end;
};

template <typename T>
void run_forward(const Work<T>& w) {
  std::vector<Task> tasks;
  for (int64_t b = 0; b < w.problem.batch; ++b) {
    const int64_t queries = w.sequences[static_cast<size_t>(b)].queries;
    for (int64_t h = 0; h < w.problem.heads; ++h) {
      int64_t begin = 0;
      do {  // one task at least: the padding is to be cleared
        const int64_t end = std::min(begin + kAttentionQueryBlock, queries);
        tasks.push_back({static_cast<int32_t>(b), static_cast<int32_t>(h), begin, end});
        begin = end;
      } while (begin < queries);
    }
  }
  run_tasks(static_cast<int64_t>(tasks.size()), 2 * w.work(), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const AttentionHead<T> head = w.head(task.sequence, task.head);
    if (attention_is_short(head)) {
      attention_short_forward(head);
    } else if (task.begin < task.end) {
      attention_forward(head, task.begin, task.end, scratch<T>(attention_forward_scratch(head)));
    }
    const Sequence& s = w.sequences[static_cast<size_t>(task.sequence)];
    if (task.end < s.queries) return;
    zero_rows(head.output, head.output_stride, s.queries, s.all_queries, head.value_dim);
    for (int64_t row = s.queries; row < s.all_queries; ++row) {
      head.lse[row * head.lse_stride] = -std::numeric_limits<T>::infinity();
    }
  });
}

template <typename T>
void run_backward(const Work<T>& w, const at::Tensor& grad_output_tensor, const at::Tensor& dq, const at::Tensor& dk,
                  const at::Tensor& dv, const at::Tensor& grad_scores) {
  const FlashAttentionProblem& p = w.problem;
  const Heads<const T> grad_output(grad_output_tensor);
  const Heads<T> grad_query(dq), grad_key(dk), grad_value(dv);
  const auto head_of = [&](int64_t b, int64_t h) {
    const Sequence& s = w.sequences[static_cast<size_t>(b)];
    AttentionHead<T> head = w.head(b, h);
    head.grad_output = grad_output.at(b, h, s.first_query);
    head.grad_output_stride = grad_output.row_stride;
    head.grad_key = grad_key.at(b, h, s.first_key);
    head.grad_key_stride = grad_key.row_stride;
    head.grad_value = grad_value.at(b, h, s.first_key);
    head.grad_value_stride = grad_value.row_stride;
    if (grad_scores.defined()) {
      head.grad_bias = grad_scores.mutable_data_ptr<T>() + b * grad_scores.stride(0) + h * grad_scores.stride(1);
      head.grad_bias_stride = grad_scores.stride(2);
    }
    return head;
  };

  // A few heads alone would not fill many cores: their keys are cut into parts, each with sums of its own for the
  // queries, added up in the end. How many depends on the sizes only, never on the threads: so do the roundings.
  constexpr int64_t kWantedTasks = 64;
  const int64_t longest_tile = attention_backward_tile(p.head_dim, p.value_dim, p.keys);
  const int64_t wanted = (kWantedTasks + p.batch * p.heads - 1) / std::max<int64_t>(1, p.batch * p.heads);
  const int64_t parts = std::max<int64_t>(1, std::min(wanted, p.keys / (2 * longest_tile)));
  const int64_t sum_row = attention_padded_dim(p.head_dim), sum_size = p.queries * sum_row;
  at::Tensor sums;
  if (parts > 1) sums = at::empty({p.batch * p.heads, parts, sum_size}, dq.options());

  std::vector<Task> tasks;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t keys = w.sequences[static_cast<size_t>(b)].keys;
    const int64_t tile = attention_backward_tile(p.head_dim, p.value_dim, keys), tiles = (keys + tile - 1) / tile;
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t part = 0; part < parts; ++part) {
        tasks.push_back({static_cast<int32_t>(b), static_cast<int32_t>(h), tiles * part / parts * tile,
                         std::min(tiles * (part + 1) / parts * tile, keys)});
      }
    }
  }
  const auto finish = [&](const AttentionHead<T>& head, const Task& task, const T* first_sum) {
    const Sequence& s = w.sequences[static_cast<size_t>(task.sequence)];
    T* out = grad_query.at(task.sequence, task.head, s.first_query);
    attention_finish_query(first_sum, parts, sum_size, head, out, grad_query.row_stride);
    zero_rows(out, grad_query.row_stride, s.queries, s.all_queries, head.head_dim);
  };
  run_tasks(static_cast<int64_t>(tasks.size()), 5 * w.work(), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const AttentionHead<T> head = head_of(task.sequence, task.head);
    const Sequence& s = w.sequences[static_cast<size_t>(task.sequence)];
    if (parts == 1 && attention_is_short(head)) {
      T* out = grad_query.at(task.sequence, task.head, s.first_query);
      attention_short_backward(head, out, grad_query.row_stride);
      zero_rows(out, grad_query.row_stride, s.queries, s.all_queries, head.head_dim);
      zero_rows(head.grad_key, head.grad_key_stride, s.keys, s.all_keys, head.head_dim);
      zero_rows(head.grad_value, head.grad_value_stride, s.keys, s.all_keys, head.value_dim);
      return;
    }
    const int64_t kernel_scratch = (attention_backward_scratch(head) + 15) / 16 * 16;
    T* memory = scratch<T>(kernel_scratch + s.queries * sum_row);
    T* sum = parts > 1 ? sums.mutable_data_ptr<T>() + i * sum_size : memory + kernel_scratch;
    std::fill_n(sum, s.queries * sum_row, T{0});
    if (task.begin < task.end) attention_backward(head, task.begin, task.end, sum, memory);
    if (i % parts == parts - 1) {
      zero_rows(head.grad_key, head.grad_key_stride, s.keys, s.all_keys, head.head_dim);
      zero_rows(head.grad_value, head.grad_value_stride, s.keys, s.all_keys, head.value_dim);
    }
    if (parts == 1) finish(head, task, sum);
  });
  if (parts == 1) return;
  run_tasks(p.batch * p.heads, w.work(), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i * parts)];
    finish(head_of(task.sequence, task.head), task, sums.const_data_ptr<T>() + i * parts * sum_size);
  });
}

at::Tensor contiguous(const OptionalTensor& t) {
  return t.has_value() && t->defined() ? t->contiguous() : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor> flash_attention_cpu(const at::Tensor& query, const at::Tensor& key,
                                                       const at::Tensor& value, FOVEA_FLASH_ATTENTION_PARAMETERS) {
  auto problem = check_flash_attention(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  const auto type = query.scalar_type();
  const auto work_type = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor q = with_contiguous_rows(query.to(work_type)), k = with_contiguous_rows(key.to(work_type)),
                   v = with_contiguous_rows(value.to(work_type));
  if (problem.bias.defined()) problem.bias = problem.bias.to(work_type);
  at::Tensor output = empty_heads(q, problem.value_dim);
  auto lse_sizes = query.sizes().vec();
  lse_sizes.pop_back();
  at::Tensor lse = at::empty(lse_sizes, q.options());
  if (lse.numel() > 0) {
    AT_DISPATCH_FLOATING_TYPES(work_type, "flash_attention", [&] {
      run_forward(make_work<scalar_t>(problem, q, k, v, output, lse, query_offsets, key_offsets, contiguous(query_lens),
                                      contiguous(valid_lens), dropout_p, rng));
    });
  }
  return {output.to(type), lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_attention_backward_cpu(
    const at::Tensor& grad_output, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& lse, FOVEA_FLASH_ATTENTION_PARAMETERS, bool bias_grad) {
  auto problem = check_flash_attention(query, key, value, FOVEA_FLASH_ATTENTION_ARGUMENTS);
  TORCH_CHECK(grad_output.sizes() == output.sizes() && output.size(-1) == problem.value_dim,
              "flash_attention_backward: grad_output must be like the output ", output.sizes(), ", got ",
              grad_output.sizes());
  const auto type = query.scalar_type();
  const auto work_type = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto rows = [&](const at::Tensor& t) { return with_contiguous_rows(t.to(work_type)); };
  const at::Tensor q = rows(query), k = rows(key), v = rows(value), out = rows(output), dout = rows(grad_output);
  if (problem.bias.defined()) problem.bias = problem.bias.to(work_type);
  at::Tensor dq = empty_heads(q, problem.head_dim), dk = empty_heads(k, problem.head_dim),
             dv = empty_heads(v, problem.value_dim), grad_scores;
  if (bias_grad && problem.bias.defined()) {
    grad_scores = at::zeros({problem.batch, problem.heads, problem.queries, problem.keys}, q.options());
  }
  if (dq.numel() + dk.numel() + dv.numel() > 0) {
    AT_DISPATCH_FLOATING_TYPES(work_type, "flash_attention_backward", [&] {
      run_backward(make_work<scalar_t>(problem, q, k, v, out, lse, query_offsets, key_offsets, contiguous(query_lens),
                                       contiguous(valid_lens), dropout_p, rng),
                   dout, dq, dk, dv, grad_scores);
    });
  }
  const at::Tensor dbias = grad_scores.defined() ? at::sum_to(grad_scores, bias->sizes()).to(type).contiguous()
                                                 : at::empty({0}, query.options());
  return {dq.to(type), dk.to(type), dv.to(type), dbias};
}

}  // namespace
}  // namespace fovea::ops

TORCH_LIBRARY_IMPL(fovea, CPU, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_cpu);
  library.impl("flash_attention_backward", fovea::ops::flash_attention_backward_cpu);
}
