// The attention op against torch on the same work: forward and backward, interleaved so that all meet the same
// machine; medians. Ratios are against the best torch path that accepts the work. The roofline is torch's own sgemm.
//
//   bench_attention [--rounds 15] [--threads 2] [--ours] [shape ...]
//
// --ours runs nothing of torch: for a profiler.

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/ops/dropout.h"
#include "fovea/ops/flash_attention.h"

namespace {

using Clock = std::chrono::steady_clock;
using at::Tensor;
using fovea::ops::FlashAttentionArguments;

struct Shape {
  std::string name;
  int64_t batch, heads, steps, head_dim;
  bool causal = false;
  std::vector<int64_t> lengths;  // empty: all are `steps`
  bool packed = false;
  double at_least, at_least_dropout;  // the ratios this project holds itself to; 0: none
};

double seconds(const std::function<void()>& run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double sgemm_rate() {
  const Tensor a = at::randn({1024, 1024}), b = at::randn({1024, 1024});
  double best = 0;
  for (int i = 0; i < 12; ++i) best = std::max(best, 2.0 * 1024 * 1024 * 1024 / seconds([&] { at::mm(a, b); }));
  return best;
}

// One way to do the work: forward, then the gradients of the inputs.
struct Path {
  std::string name;
  std::function<void()> run;
  std::vector<double> times;
};

class Bench {
 public:
  Bench(Shape shape, double dropout) : s_(std::move(shape)), p_(dropout) {
    if (s_.lengths.empty()) s_.lengths.assign(static_cast<size_t>(s_.batch), s_.steps);
    lens_ = at::tensor(s_.lengths, at::kLong);
    for (Tensor* t : {&q_, &k_, &v_}) *t = at::randn({s_.batch, s_.heads, s_.steps, s_.head_dim}).requires_grad_();
    grad_ = at::randn(q_.sizes());
    const Tensor steps = at::arange(s_.steps);
    if (lens_.min().item<int64_t>() < s_.steps) mask_ = (steps < lens_.view({-1, 1})).view({s_.batch, 1, 1, s_.steps});
    if (s_.causal) causal_ = steps.view({1, 1, 1, -1}).le(steps.view({1, 1, -1, 1}));
    if (s_.packed) pack();
  }

  std::vector<Path> paths() {
    std::vector<Path> all;
    all.push_back({"fovea", [this] { s_.packed ? flash_packed() : flash(); }, {}});
    all.push_back({"torch plain", [this] { gradients(plain()); }, {}});
    all.push_back({"torch fused", [this] { gradients(fused()); }, {}});
    return all;
  }

  // Floating-point operations of the seven products that forward and backward cannot do without.
  double operations() const {
    double pairs = 0;
    for (const int64_t n : s_.lengths) {
      pairs += s_.causal ? 0.5 * static_cast<double>(n * (n + 1)) : static_cast<double>(n * n);
    }
    return 2.0 * 7 * pairs * static_cast<double>(s_.heads * s_.head_dim);
  }

 private:
  void pack() {
    std::vector<int32_t> offsets = {0};
    int64_t total = 0;
    for (const int64_t n : s_.lengths) offsets.push_back(static_cast<int32_t>(total += n));
    offsets_ = at::tensor(offsets, at::kInt);
    for (Tensor* t : {&packed_q_, &packed_k_, &packed_v_}) {
      *t = at::randn({total, s_.heads, s_.head_dim}).requires_grad_();
    }
    packed_grad_ = at::randn(packed_q_.sizes());
  }

  static void discard(const torch::autograd::variable_list&) {}
  void gradients(const Tensor& out) { discard(torch::autograd::grad({out}, {q_, k_, v_}, {grad_})); }

  FlashAttentionArguments arguments() const {
    FlashAttentionArguments a;
    a.causal = s_.causal;
    a.dropout_p = p_;
    if (p_ > 0) a.rng = rng_;
    return a;
  }

  void flash() {
    auto a = arguments();
    if (mask_.defined()) a.valid_lens = a.query_lens = lens_;
    gradients(std::get<0>(fovea::ops::flash_attention(q_, k_, v_, a)));
  }

  void flash_packed() {
    auto a = arguments();
    a.query_offsets = a.key_offsets = offsets_;
    a.max_query = a.max_key = s_.steps;
    const Tensor out = std::get<0>(fovea::ops::flash_attention(packed_q_, packed_k_, packed_v_, a));
    discard(torch::autograd::grad({out}, {packed_q_, packed_k_, packed_v_}, {packed_grad_}));
  }

  Tensor plain() {
    Tensor scores = at::matmul(q_ / std::sqrt(static_cast<double>(s_.head_dim)), k_.transpose(-2, -1));
    if (mask_.defined()) scores = scores.masked_fill(mask_.logical_not(), -1e30);
    if (s_.causal) scores = scores.masked_fill(causal_.logical_not(), -1e30);
    Tensor weights = at::softmax(scores, -1);
    if (p_ > 0) weights = at::dropout(weights, p_, true);
    return at::matmul(weights, v_);
  }

  Tensor fused() {
    std::optional<Tensor> mask;
    if (mask_.defined()) mask = s_.causal ? mask_.logical_and(causal_) : mask_;
    return at::scaled_dot_product_attention(q_, k_, v_, mask, p_, s_.causal && !mask_.defined());
  }

  Shape s_;
  double p_;
  Tensor lens_, q_, k_, v_, grad_, mask_, causal_, offsets_, packed_q_, packed_k_, packed_v_, packed_grad_;
  Tensor rng_ = at::tensor({1, 2, 3}, at::kLong);
};

std::vector<int64_t> uniform_lengths(int64_t count, int64_t longest) {
  std::vector<int64_t> lengths;
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    lengths.push_back(1 + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(longest)));
  }
  return lengths;
}

// d2l's English-French pairs at 9 steps: 46 % of the tokens are valid.
std::vector<int64_t> d2l_lengths(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back(std::vector<int64_t>{3, 4, 4, 5, 3, 4, 6}[static_cast<size_t>(i % 7)]);
  return lengths;
}

void measure(const Shape& shape, double dropout, int64_t rounds, bool only_ours, double sgemm) {
  Bench bench(shape, dropout);
  auto paths = bench.paths();
  if (only_ours) paths.resize(1);
  for (auto& path : paths) path.run();
  const double once = seconds(paths.back().run);
  const int64_t repeats = std::max<int64_t>(1, static_cast<int64_t>(0.02 / once));
  for (int64_t round = 0; round < rounds; ++round) {
    for (auto& path : paths) {
      path.times.push_back(seconds([&] {
                             for (int64_t i = 0; i < repeats; ++i) path.run();
                           }) /
                           static_cast<double>(repeats));
    }
  }
  const double ours = median(paths[0].times);
  if (only_ours) {
    std::printf("%-34s %5.1f %10.3f\n", shape.name.c_str(), dropout, 1e3 * ours);
    return;
  }
  const double best = std::min(median(paths[1].times), median(paths[2].times));
  const double target = dropout > 0 ? shape.at_least_dropout : shape.at_least;
  std::printf("%-34s %5.1f %10.3f %12.3f %12.3f %8.2fx %7.2fx %11.0f %%\n", shape.name.c_str(), dropout, 1e3 * ours,
              1e3 * median(paths[1].times), 1e3 * median(paths[2].times), best / ours, target,
              100 * bench.operations() / ours / sgemm);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t rounds = 15;
  int threads = 2;
  bool only_ours = false;
  std::vector<std::string> only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--rounds" && i + 1 < argc) {
      rounds = std::stoll(argv[++i]);
    } else if (argument == "--threads" && i + 1 < argc) {
      threads = std::stoi(argv[++i]);
    } else if (argument == "--ours") {
      only_ours = true;
    } else {
      only.push_back(argument);
    }
  }
  at::set_num_threads(threads);
  const std::vector<Shape> shapes = {
      {.name = "d2l B=128 H=4 D=64 T=9 ragged",
       .batch = 128,
       .heads = 4,
       .steps = 9,
       .head_dim = 64,
       .lengths = d2l_lengths(128),
       .at_least = 4,
       .at_least_dropout = 4.5},
      {.name = "ViT B=128 H=8 D=64 T=37",
       .batch = 128,
       .heads = 8,
       .steps = 37,
       .head_dim = 64,
       .lengths = {},
       .at_least = 1.5,
       .at_least_dropout = 2.2},
      {.name = "B=8 H=8 D=64 T=512 causal",
       .batch = 8,
       .heads = 8,
       .steps = 512,
       .head_dim = 64,
       .causal = true,
       .lengths = {},
       .at_least = 1.5,
       .at_least_dropout = 0},
      {.name = "B=2 H=8 D=64 T=2048 full",
       .batch = 2,
       .heads = 8,
       .steps = 2048,
       .head_dim = 64,
       .lengths = {},
       .at_least = 0.9,
       .at_least_dropout = 0},
      {.name = "B=16 H=8 D=64 1..512 packed",
       .batch = 16,
       .heads = 8,
       .steps = 512,
       .head_dim = 64,
       .lengths = uniform_lengths(16, 512),
       .packed = true,
       .at_least = 2,
       .at_least_dropout = 0},
  };
  const double sgemm = sgemm_rate();
  std::printf("float32, %d threads, forward + backward, medians of %ld interleaved rounds; sgemm %.0f GFLOP/s\n",
              threads, static_cast<long>(rounds), sgemm / 1e9);
  std::printf("%-34s %5s %10s %12s %12s %9s %8s %13s\n", "shape", "drop", "fovea ms", "plain ms", "fused ms", "ratio",
              "target", "of sgemm rate");
  for (const auto& shape : shapes) {
    if (!only.empty() && std::none_of(only.begin(), only.end(), [&](const std::string& part) {
          return shape.name.find(part) != std::string::npos;
        })) {
      continue;
    }
    for (const double dropout : {0.0, 0.1}) measure(shape, dropout, rounds, only_ours, sgemm);
  }
  return 0;
}
