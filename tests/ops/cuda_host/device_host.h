// The functions of src/fovea/ops/cuda/device.h on the CPU. That header includes this one where
// FOVEA_CUDA_HOST_HEADER names it.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tests/ops/cuda_host/block.h"

#define FOVEA_DEVICE inline
#define FOVEA_HOST_DEVICE inline
#define FOVEA_KERNEL(threads, blocks) inline void

namespace fovea::ops::cuda {

namespace host = fovea_tests::cuda_host;

inline int thread_index() {
  return host::Block::current().thread();
}
inline int64_t block_index() {
  return host::Block::current().index();
}
inline Shared shared_begin() {
  return 0;
}
inline void block_barrier() {
  host::Block::current().block_barrier();
}
inline void warp_barrier() {
  host::Block::current().warp_barrier();
}

template <typename X>
X shuffle_xor_of(X x, int mask) {
  struct Exchange {
    X in, out;
    int mask;
  } mine{x, x, mask};
  host::Block::current().collective("shuffle_xor", mine, [](Exchange* const* lanes) {
    for (int i = 0; i < host::kWarp; ++i) lanes[i]->out = lanes[i ^ lanes[i]->mask]->in;
  });
  return mine.out;
}
inline float shuffle_xor(float x, int mask) {
  return shuffle_xor_of(x, mask);
}
inline uint32_t shuffle_xor(uint32_t x, int mask) {
  return shuffle_xor_of(x, mask);
}
inline int shuffle_xor(int x, int mask) {
  return shuffle_xor_of(x, mask);
}

inline int opaque(int x) {
  return x;
}
inline uint32_t opaque(uint32_t x) {
  return x;
}

inline float exp2_fast(float x) {
  return std::exp2(x);
}
inline float log2_of(float x) {
  return std::log2(x);
}

// Round to nearest even, with subnormals, infinities and NaN.
inline uint32_t to_bits(BFloat16, float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7FFF;
  return (u + 0x7FFF + (u >> 16 & 1)) >> 16;
}
inline uint32_t to_bits(Float16, float x) {
  const uint32_t sign = std::bit_cast<uint32_t>(x) >> 16 & 0x8000;
  const float a = std::fabs(x);
  if (std::isnan(x)) return 0x7FFF;
  if (a >= 65520.0f) return sign | 0x7C00;
  if (a < 0x1p-14f) return sign | static_cast<uint32_t>(std::nearbyint(a * 0x1p24f));
  const auto u = std::bit_cast<uint32_t>(a);
  return sign | ((u + 0xFFF + (u >> 13 & 1) - (112u << 23)) >> 13);
}
inline float from_bits(BFloat16, uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}
inline float from_bits(Float16, uint32_t bits) {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (uint32_t i = 0; i < 65536; ++i) {
      const int exponent = static_cast<int>(i >> 10 & 31);
      const auto mantissa = static_cast<float>(i & 1023);
      float v = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0f + mantissa, exponent - 25);
      if (exponent == 31) v = mantissa == 0 ? INFINITY : NAN;
      values[i] = (i & 0x8000) != 0 ? -v : v;
    }
    return values;
  }();
  return table[bits & 0xFFFF];
}

template <typename T>
uint32_t pack(float low, float high) {
  return to_bits(T{}, low) | to_bits(T{}, high) << 16;
}
template <typename T>
float to_float(uint32_t bits) {
  if constexpr (std::is_same_v<T, Float32>) {
    return std::bit_cast<float>(bits);
  } else {
    return from_bits(T{}, bits & 0xFFFF);
  }
}

template <typename T>
void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Operands {
    float* d;
    const uint32_t* a;
    uint32_t b[2];
  } mine{d, a, {b0, b1}};
  host::Block::current().collective("multiply_add", mine, [](Operands* const* lanes) {
    float left[16][16], right[16][8];
    for (int lane = 0; lane < host::kWarp; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 4; ++i) {
        const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
        left[row][column] = to_float<T>(lanes[lane]->a[i]);
        left[row][column + 1] = to_float<T>(lanes[lane]->a[i] >> 16);
      }
      for (int i = 0; i < 2; ++i) {
        right[2 * t + 8 * i][g] = to_float<T>(lanes[lane]->b[i]);
        right[2 * t + 8 * i + 1][g] = to_float<T>(lanes[lane]->b[i] >> 16);
      }
    }
    float sums[16][8] = {};
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16; ++k) {
        for (int column = 0; column < 8; ++column) sums[row][column] += left[row][k] * right[k][column];
      }
    }
    for (int lane = 0; lane < host::kWarp; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 4; ++i) lanes[lane]->d[i] += sums[g + 8 * (i / 2)][2 * t + i % 2];
    }
    host::Block::current().count_product();
  });
}

inline void load_matrices(uint32_t (&r)[4], Shared address, bool transposed) {
  struct Request {
    uint32_t* r;
    Shared address;
    bool transposed;
  } mine{r, address, transposed};
  const char* name = transposed ? "load_matrix_x4_transposed" : "load_matrix_x4";
  host::Block::current().collective(name, mine, [name](Request* const* lanes) {
    auto& block = host::Block::current();
    const int first = block.thread() / host::kWarp * host::kWarp;
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint16_t elements[8][8];
      uint32_t addresses[8];
      for (int row = 0; row < 8; ++row) {
        const int lane = 8 * matrix + row;
        addresses[row] = lanes[lane]->address;
        std::memcpy(elements[row], block.read(addresses[row], 16, first + lane, name), 16);
      }
      block.count_rows(addresses, 8);
      for (int lane = 0; lane < host::kWarp; ++lane) {
        const int g = lane / 4, t = lane % 4;
        const uint32_t low = lanes[lane]->transposed ? elements[2 * t][g] : elements[g][2 * t];
        const uint32_t high = lanes[lane]->transposed ? elements[2 * t + 1][g] : elements[g][2 * t + 1];
        lanes[lane]->r[matrix] = low | high << 16;
      }
    }
  });
}
inline void load_matrix_x4(uint32_t (&r)[4], Shared address) {
  load_matrices(r, address, false);
}
inline void load_matrix_x4_transposed(uint32_t (&r)[4], Shared address) {
  load_matrices(r, address, true);
}

inline void copy_async(Shared to, const void* from, bool valid) {
  host::Block::current().copy_async(to, valid ? from : nullptr);
}
inline void copy_async_commit() {
  host::Block::current().copy_async_commit();
}
template <int Pending>
void copy_async_wait() {
  host::Block::current().copy_async_wait(Pending);
}

template <typename X>
void shared_store_of(Shared to, X x) {
  auto& block = host::Block::current();
  block.note_access(to, sizeof(X));
  std::memcpy(block.write(to, sizeof(X), block.thread(), "shared_store"), &x, sizeof(X));
}
template <typename X>
X shared_load_of(Shared from) {
  auto& block = host::Block::current();
  block.note_access(from, sizeof(X));
  X x;
  std::memcpy(&x, block.read(from, sizeof(X), block.thread(), "shared_load"), sizeof(X));
  return x;
}
inline void shared_store(Shared to, uint32_t x) {
  shared_store_of(to, x);
}
inline void shared_store(Shared to, float x) {
  shared_store_of(to, x);
}
inline void shared_store(Shared to, int x) {
  shared_store_of(to, x);
}
inline uint32_t shared_load(Shared from) {
  return shared_load_of<uint32_t>(from);
}
inline float shared_load_float(Shared from) {
  return shared_load_of<float>(from);
}
inline int shared_load_int(Shared from) {
  return shared_load_of<int>(from);
}
inline Float2 shared_load_float2(Shared from) {
  return shared_load_of<Float2>(from);
}
inline Words4 shared_load4(Shared from) {
  return shared_load_of<Words4>(from);
}

}  // namespace fovea::ops::cuda
