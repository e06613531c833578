// flash_attention on the CPU: which head goes to which kernel. The arithmetic is in the kernels.
#include <torch/library.h>

#include <limits>

#include "fovea/ops/cpu/flash_attention_work.h"

namespace fovea::ops {
namespace {

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

// The gradient of a bias that several heads share is a sum over them. Heads that add to one sum run one after another;
// each bias has a few such sums, so that there is work for many threads. Which head adds where depends on the sizes
// only: so do the roundings.
class BiasGradient {
 public:
  BiasGradient() = default;
  BiasGradient(const FlashAttentionProblem& p, const at::Tensor& bias, const at::TensorOptions& options)
      : batch_(bias.dim() > 3 ? bias.size(-4) : 1), heads_(bias.dim() > 2 ? bias.size(-3) : 1), all_heads_(p.heads) {
    constexpr int64_t kWantedChains = 32;
    const int64_t biases = std::max<int64_t>(1, batch_ * heads_);
    sharing_ = std::max<int64_t>(1, p.batch * p.heads / biases);
    parts_ = std::clamp<int64_t>(kWantedChains / biases, 1, sharing_);
    sums_ = at::zeros({parts_, batch_, heads_, p.queries, p.keys}, options);
  }

  bool defined() const { return sums_.defined(); }
  int64_t chains() const { return parts_ * batch_ * heads_; }
  /// The sum that a head adds to.
  int64_t chain(int64_t b, int64_t h) const {
    const int64_t rank = (batch_ == 1 ? b : 0) * (heads_ == 1 ? all_heads_ : 1) + (heads_ == 1 ? h : 0);
    return (rank * parts_ / sharing_ * batch_ + (batch_ == 1 ? 0 : b)) * heads_ + (heads_ == 1 ? 0 : h);
  }
  template <typename T>
  T* at(int64_t b, int64_t h) const {
    return sums_.mutable_data_ptr<T>() + chain(b, h) * sums_.stride(2);
  }
  at::Tensor get(at::IntArrayRef sizes) const { return at::sum_to(sums_.sum(0), sizes); }

 private:
  int64_t batch_ = 1, heads_ = 1, all_heads_ = 1, sharing_ = 1, parts_ = 1;
  at::Tensor sums_;
};

template <typename T>
void run_backward(const Work<T>& w, const at::Tensor& grad_output_tensor, const at::Tensor& dq, const at::Tensor& dk,
                  const at::Tensor& dv, const BiasGradient& grad_bias) {
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
    if (grad_bias.defined()) {
      head.grad_bias = grad_bias.at<T>(b, h);
      head.grad_bias_stride = p.keys;
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
  const auto run = [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const AttentionHead<T> head = head_of(task.sequence, task.head);
    const Sequence& s = w.sequences[static_cast<size_t>(task.sequence)];
    if (parts == 1 && attention_is_short(head)) {
      T* out = grad_query.at(task.sequence, task.head, s.first_query);
      attention_short_backward(head, out, grad_query.row_stride);
      zero_rows(out, grad_query.row_stride, s.queries, s.all_queries, head.head_dim);
    } else {
      const int64_t kernel_scratch = (attention_backward_scratch(head) + 15) / 16 * 16;
      T* memory = scratch<T>(kernel_scratch + s.queries * sum_row);
      T* sum = parts > 1 ? sums.mutable_data_ptr<T>() + i * sum_size : memory + kernel_scratch;
      std::fill_n(sum, s.queries * sum_row, T{0});
      if (task.begin < task.end) attention_backward(head, task.begin, task.end, sum, memory);
      if (parts == 1) finish(head, task, sum);
    }
    if (i % parts == parts - 1) {
      zero_rows(head.grad_key, head.grad_key_stride, s.keys, s.all_keys, head.head_dim);
      zero_rows(head.grad_value, head.grad_value_stride, s.keys, s.all_keys, head.value_dim);
    }
  };
  if (grad_bias.defined()) {
    std::vector<std::vector<int64_t>> chains(static_cast<size_t>(grad_bias.chains()));
    for (size_t i = 0; i < tasks.size(); ++i) {
      chains[static_cast<size_t>(grad_bias.chain(tasks[i].sequence, tasks[i].head))].push_back(static_cast<int64_t>(i));
    }
    run_tasks(grad_bias.chains(), 5 * w.work(), [&](int64_t c) {
      for (const int64_t i : chains[static_cast<size_t>(c)]) run(i);
    });
  } else {
    run_tasks(static_cast<int64_t>(tasks.size()), 5 * w.work(), run);
  }
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
             dv = empty_heads(v, problem.value_dim);
  BiasGradient grad_bias;
  if (bias_grad && problem.bias.defined()) {
    grad_bias = BiasGradient(problem, *bias, q.options());
  }
  if (dq.numel() + dk.numel() + dv.numel() > 0) {
    AT_DISPATCH_FLOATING_TYPES(work_type, "flash_attention_backward", [&] {
      run_backward(make_work<scalar_t>(problem, q, k, v, out, lse, query_offsets, key_offsets, contiguous(query_lens),
                                       contiguous(valid_lens), dropout_p, rng),
                   dout, dq, dk, dv, grad_bias);
    });
  }
  const at::Tensor dbias =
      grad_bias.defined() ? grad_bias.get(bias->sizes()).to(type).contiguous() : at::empty({0}, query.options());
  return {dq.to(type), dk.to(type), dv.to(type), dbias};
}

}  // namespace
}  // namespace fovea::ops

TORCH_LIBRARY_IMPL(fovea, CPU, library) {
  library.impl("flash_attention", fovea::ops::flash_attention_cpu);
  library.impl("flash_attention_backward", fovea::ops::flash_attention_backward_cpu);
}
