// The CUDA kernels of flash attention, compiled for the CPU: a block's threads are fibers, and every primitive behind
// ops/cuda/device.h is played exactly, with its mistakes caught (tests/ops/cuda_host).
#define FOVEA_CUDA_HOST_HEADER "tests/ops/cuda_host/device_host.h"
#include "fovea/ops/cuda/flash_float.cuh"
#include "fovea/ops/cuda/flash_short.cuh"
#include "tests/catch.h"
#include "tests/ops/cuda_host/attention_case.h"

namespace {

using namespace fovea::ops::cuda;  // NOLINT: the kernels' own vocabulary
using fovea_tests::cuda_host::AttentionCase;
using fovea_tests::cuda_host::AttentionProblem;
using fovea_tests::cuda_host::Counts;
using fovea_tests::cuda_host::launch;
using fovea_tests::cuda_host::Type;

Counts launch_shape(LaunchShape shape, const std::function<void()>& kernel) {
  return launch(shape.blocks, shape.threads, shape.shared_bytes, kernel);
}

template <int D>
int64_t run_tiled(const FlashParams& p) {
  const Counts forward = launch_shape(forward_launch<D>(p), [&] { flash_forward_kernel<D>(p); });
  launch_shape(delta_launch(p), [&] { flash_delta_kernel<kDeltaRows>(p); });
  const Counts backward = launch_shape(backward_launch<D>(p), [&] { flash_backward_kernel<D>(p); });
  return forward.bank_conflicts + backward.bank_conflicts;
}

int64_t run_short(const FlashParams& p) {
  const Counts forward = launch_shape(short_launch(p, ShortTile::kForwardBytes), [&] { flash_short_kernel<false>(p); });
  const Counts backward =
      launch_shape(short_launch(p, ShortTile::kBackwardBytes), [&] { flash_short_kernel<true>(p); });
  return forward.bank_conflicts + backward.bank_conflicts;
}

void run_float(const FlashParams& p) {
  launch_shape(float_forward_launch(p), [&] { flash_float_kernel<false>(p); });
  launch_shape(delta_launch(p), [&] { flash_delta_kernel<kDeltaRows>(p); });
  launch_shape(float_backward_launch(p), [&] { flash_float_kernel<true>(p); });
}

void check_accuracy(AttentionProblem& problem, bool with_bias_gradient) {
  if (!with_bias_gradient) problem.params.grad_bias = nullptr;
  const auto errors = problem.compare(true);
  CHECK(errors.wrong == "");
  // In units of the type's epsilon times the largest element. For 16 bits the rounding of weights and results is
  // nearly all, for 32 the sums count.
  const double factor = problem.params.is_float32 ? 8 : 1;
  CHECK(errors.output < 2 * factor);
  CHECK(errors.lse < 16);
  CHECK(errors.grad_query < 4 * factor);
  CHECK(errors.grad_key < 4 * factor);
  CHECK(errors.grad_value < 4 * factor);
  CHECK(errors.grad_bias < 4 * factor);
}

template <int D>
void check_tiled(const AttentionCase& c) {
  INFO(c.name << ", " << c.queries << " queries, " << c.keys << " keys, head_dim " << c.head_dim << ", tiles of " << D);
  AttentionProblem problem(c);
  CHECK(run_tiled<D>(problem.params) == 0);
  check_accuracy(problem, true);
}

void check_short(AttentionCase c) {
  INFO(c.name << ", " << c.queries << " queries, " << c.keys << " keys, head_dim " << c.head_dim << ", short");
  AttentionProblem problem(c);
  REQUIRE(is_short(problem.params));
  CHECK(run_short(problem.params) == 0);
  check_accuracy(problem, false);
}

void check_float(AttentionCase c) {
  INFO(c.name << ", " << c.queries << " queries, " << c.keys << " keys, head_dim " << c.head_dim << ", float32");
  c.type = Type::kFloat32;
  AttentionProblem problem(c);
  run_float(problem.params);
  check_accuracy(problem, true);
}

/// Each mask and option, for any sizes.
std::vector<AttentionCase> variants(const AttentionCase& base) {
  std::vector<AttentionCase> all;
  const auto add = [&](const char* name, auto change) {
    AttentionCase c = base;
    c.name = name;
    c.type = all.size() % 2 == 1 ? Type::kFloat16 : Type::kBFloat16;
    change(c);
    all.push_back(c);
  };
  const auto lens = [](AttentionCase& c) {
    c.valid_lens = {c.keys, 0, (c.keys + 1) / 2};
    c.batch = 3;
  };
  const auto lens_per_query = [](AttentionCase& c) {
    c.batch = 2;
    for (int i = 0; i < 2 * c.queries; ++i) c.valid_lens.push_back(i * 7 % (c.keys + 1));
  };
  add("no mask", [](AttentionCase& c) { c.heads_inside = true; });
  add("causal", [](AttentionCase& c) { c.causal = true; });
  add("lengths", lens);
  add("causal and lengths", [&](AttentionCase& c) {
    lens(c);
    c.causal = true;
    c.query_lens = {c.queries / 2, c.queries, 0};
  });
  add("lengths of each query", lens_per_query);
  add("window", [](AttentionCase& c) {
    c.window_left = 3;
    c.window_right = 2;
  });
  add("causal window with dropout", [](AttentionCase& c) {
    c.causal = true;
    c.window_left = 9;
    c.dropout = 0.25;
  });
  add("dropout", [](AttentionCase& c) {
    c.heads = 2;
    c.dropout = 0.5;
  });
  add("bias of a head", [](AttentionCase& c) {
    c.batch = c.heads = 2;
    c.bias = 1;
  });
  add("bias that forbids, with everything", [&](AttentionCase& c) {
    lens_per_query(c);
    c.heads = 2;
    c.bias = 2;
    c.bias_forbids = true;
    c.causal = true;
    c.dropout = 0.1;
  });
  add("negative scale", [](AttentionCase& c) { c.scale = -0.2; });
  return all;
}

struct Size {
  int queries, keys, head_dim, value_dim;
};

AttentionCase of_size(Size size) {
  return {
      .name = "", .queries = size.queries, .keys = size.keys, .head_dim = size.head_dim, .value_dim = size.value_dim};
}

}  // namespace

TEST_CASE("tiled kernels: every mask at odd sizes") {
  for (const Size size : {Size{1, 1, 64, 64},
                          {1, 70, 20, 33},
                          {5, 2, 64, 64},
                          {2, 5, 3, 5},
                          {65, 63, 64, 64},
                          {130, 129, 64, 40},
                          {64, 128, 64, 64}}) {
    for (const auto& c : variants(of_size(size))) check_tiled<64>(c);
  }
}

TEST_CASE("tiled kernels: wide heads") {
  for (const auto& c : variants(of_size({70, 67, 96, 128}))) check_tiled<128>(c);
  for (const auto& c : variants(of_size({66, 35, 256, 200}))) check_tiled<256>(c);
  check_tiled<128>({.name = "causal", .queries = 140, .keys = 140, .head_dim = 128, .causal = true});
}

TEST_CASE("short kernels: every mask at odd sizes") {
  for (const Size size : {Size{1, 1, 64, 64},
                          {9, 9, 64, 64},
                          {16, 3, 20, 33},
                          {17, 30, 5, 64},
                          {37, 37, 64, 64},
                          {3, 64, 64, 8},
                          {64, 64, 32, 32}}) {
    for (const auto& c : variants(of_size(size))) check_short(c);
  }
}

TEST_CASE("float32 kernels: every mask at odd sizes") {
  for (const Size size : {Size{1, 1, 64, 64}, {5, 2, 33, 20}, {35, 37, 3, 5}, {70, 65, 64, 40}, {33, 20, 256, 100}}) {
    for (const auto& c : variants(of_size(size))) check_float(c);
  }
}

TEST_CASE("packed sequences, some of them empty") {
  AttentionCase c = {.name = "packed", .heads = 2, .head_dim = 40, .value_dim = 24, .causal = true};
  c.packed_queries = {5, 0, 41, 1, 33};
  c.packed_keys = {5, 3, 60, 0, 20};
  for (const bool dropout : {false, true}) {
    for (const int bias : {-1, 0, 3, 8}) {
      c.dropout = dropout ? 0.3 : 0;
      c.bias = bias;
      check_tiled<64>(c);
      check_short(c);
      check_float(c);
    }
  }
  c.packed_queries = {150, 9};
  c.packed_keys = {150, 9};
  check_tiled<64>(c);
}

TEST_CASE("several heads share a block of the short kernels, and the last one is not full") {
  for (const int steps : {9, 20, 50}) {
    check_short(
        {.name = "heads", .batch = 3, .heads = 3, .queries = steps, .keys = steps, .causal = true, .dropout = 0.2});
  }
}

TEST_CASE("large scores do not overflow") {
  for (const Type type : {Type::kBFloat16, Type::kFloat16}) {
    AttentionCase c = {.name = "large", .queries = 40, .keys = 50, .type = type, .scale = 1.0, .spread = 30.0};
    AttentionProblem problem(c);
    run_tiled<64>(problem.params);
    const auto errors = problem.compare(true);
    CHECK(errors.wrong == "");
    CHECK(errors.output < 2);
  }
}

TEST_CASE("dropout of everything gives zeros") {
  AttentionCase c = {.name = "p = 1", .queries = 20, .keys = 20, .dropout = 1.0};
  check_short(c);
  check_tiled<64>(c);
}

// ---- The host that plays the GPU ---------------------------------------------------------------

namespace {

std::string failure_of(int threads, int bytes, const std::function<void()>& kernel) {
  try {
    launch(1, threads, bytes, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the host catches what a kernel does wrong") {
  const auto mine = [] { return static_cast<Shared>(4 * thread_index()); };
  alignas(16) static const uint32_t source[4] = {1, 2, 3, 4};
  CHECK_THAT(failure_of(32, 128, [] { shared_load(0); }), ContainsSubstring("nobody wrote"));
  CHECK_THAT(failure_of(32, 128, [&] { shared_store(mine() + 4, 1u); }), ContainsSubstring("outside"));
  CHECK_THAT(failure_of(32, 128, [&] { shared_store(mine() + 2, 1u); }), ContainsSubstring("aligned"));
  CHECK_THAT(failure_of(32, 128,
                        [&] {
                          shared_store(mine(), 1u);
                          shared_load(mine() ^ 4);
                        }),
             ContainsSubstring("nobody wrote"));
  CHECK_THAT(failure_of(32, 128,
                        [&] {
                          shared_store(mine(), 1u);
                          shuffle_xor(1, 1);  // brings the lanes together, orders nothing
                          shared_load(mine() ^ 4);
                        }),
             ContainsSubstring("without a barrier"));
  CHECK_THAT(failure_of(64, 256,
                        [&] {
                          shared_store(mine(), 1u);
                          warp_barrier();
                          shared_load(mine() ^ 4);
                          warp_barrier();
                          shared_store(mine(), 2u);
                          warp_barrier();
                          shared_load(mine() ^ 128);
                        }),
             ContainsSubstring("without a barrier"));
  CHECK_THAT(failure_of(64, 256,
                        [&] {
                          shared_store(mine(), 1u);
                          block_barrier();
                          if (thread_index() >= 32) {
                            shared_load(mine() - 128);
                          } else {
                            shared_store(mine(), 2u);
                          }
                        }),
             ContainsSubstring("may still read"));
  CHECK_THAT(failure_of(32, 512,
                        [&] {
                          copy_async(4 * mine(), source, true);
                          copy_async_commit();
                          shared_load(4 * mine());
                          copy_async_wait<0>();
                        }),
             ContainsSubstring("not been waited for"));
  CHECK_THAT(failure_of(32, 512,
                        [&] {
                          copy_async(4 * mine(), source, true);
                          copy_async_commit();
                          copy_async_wait<0>();
                          shuffle_xor(1, 1);
                          shared_load(4 * (mine() ^ 4));
                        }),
             ContainsSubstring("without a barrier"));
  CHECK_THAT(failure_of(32, 512,
                        [&] {
                          copy_async(4 * mine(), source, true);
                          copy_async_commit();
                        }),
             ContainsSubstring("not waited for"));
  CHECK_THAT(failure_of(64, 0,
                        [] {
                          if (thread_index() < 32) block_barrier();
                        }),
             ContainsSubstring("no thread can"));
  CHECK_THAT(failure_of(32, 0,
                        [] {
                          if (thread_index() < 16) {
                            warp_barrier();
                          } else {
                            shuffle_xor(1, 1);
                          }
                        }),
             ContainsSubstring("different places"));
  CHECK(failure_of(64, 1024, [&] {
          copy_async(4 * mine(), source, thread_index() != 5);
          copy_async_commit();
          copy_async_wait<0>();
          block_barrier();
          if (shared_load(4 * (mine() ^ 4) + 8) != (thread_index() == 4 ? 0u : 3u)) shared_load(1 << 20);
        }) == "");
}

TEST_CASE("the host counts bank conflicts") {
  const auto conflicts = [](int stride) {
    return launch(1, 32, 32 * 4 * 32, [&] { shared_store(static_cast<Shared>(4 * stride * thread_index()), 1u); })
        .bank_conflicts;
  };
  CHECK(conflicts(1) == 0);
  CHECK(conflicts(2) == 1);
  CHECK(conflicts(32) == 31);
  CHECK(conflicts(31) == 0);
}

TEST_CASE("products and matrix loads have the documented layouts") {
  // C = A B^T with A (16 x 16) and B (16 x 16) in shared memory, element (r, c) = 16 r + c and 3 r - c.
  std::vector<float> result(16 * 16);
  launch(1, 32, 2 * 16 * 32, [&] {
    const int lane = thread_index(), g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 2, pair = 4 * (lane % 2) + i;
      const auto at = static_cast<Shared>(32 * row + 4 * pair);
      const auto c = static_cast<float>(2 * pair), r = static_cast<float>(row);
      shared_store(at, pack<Float16>(16 * r + c, 16 * r + c + 1));
      shared_store(at + 512, pack<Float16>(3 * r - c, 3 * r - c - 1));
    }
    warp_barrier();
    uint32_t a[4], b[4];
    load_matrix_x4(a, static_cast<Shared>(32 * (lane % 16) + 16 * (lane / 16)));
    load_matrix_x4(b, static_cast<Shared>(512 + 32 * (lane % 8 + 8 * (lane / 16)) + 16 * (lane / 8 % 2)));
    for (int n = 0; n < 2; ++n) {
      float c[4] = {};
      multiply_add<Float16>(c, a, b[2 * n], b[2 * n + 1]);
      for (int i = 0; i < 4; ++i) result[static_cast<size_t>(16 * (g + 8 * (i / 2)) + 8 * n + 2 * t + i % 2)] = c[i];
    }
    uint32_t x[4];
    load_matrix_x4_transposed(x, static_cast<Shared>(32 * (lane % 16) + 16 * (lane / 16)));
    if (to_float<Float16>(x[1]) != static_cast<float>(16 * (2 * t + 8) + g)) shared_load(1 << 20);
    if (to_float<Float16>(x[2] >> 16) != static_cast<float>(16 * (2 * t + 1) + g + 8)) shared_load(1 << 20);
  });
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += static_cast<float>((16 * i + k) * (3 * j - k));
      CHECK(result[static_cast<size_t>(16 * i + j)] == sum);
    }
  }
}

TEST_CASE("half types round to nearest even") {
  CHECK(to_float<BFloat16>(pack<BFloat16>(1.0f + 0x1p-8f, 0.0f)) == 1.0f);
  CHECK(to_float<BFloat16>(pack<BFloat16>(1.0f + 3 * 0x1p-8f, 0.0f)) == 1.0f + 0x1p-6f);
  CHECK(to_float<Float16>(pack<Float16>(0.0f, 1.0f + 0x1p-11f) >> 16) == 1.0f);
  CHECK(to_float<Float16>(pack<Float16>(65519.0f, 0.0f)) == 65504.0f);
  CHECK(to_float<Float16>(pack<Float16>(65520.0f, 0.0f)) == INFINITY);
  CHECK(to_float<Float16>(pack<Float16>(3 * 0x1p-25f, 0.0f)) == 0x1p-23f);
  CHECK(to_float<Float16>(pack<Float16>(-0x1p-14f, 0.0f)) == -0x1p-14f);
}
