#pragma once

#include <cstdint>

/// Every hardware primitive the kernels use, behind inline functions, so that kernel source reads as plain C++ and
/// compiles twice: with nvcc for sm_80 and later, and by a host compiler, for tests that run a block's threads as
/// fibers. Such a test names a header with the same functions in FOVEA_CUDA_HOST_HEADER before it includes this one.
///
/// Rules for kernels: shared memory is reached only through the functions below, by byte address (Shared); global
/// memory through pointers. All lanes of a warp call a warp function together, all threads of a block the barrier.
///
/// Register layouts (g = lane / 4, t = lane % 4), as in the PTX manual for mma.m16n8k16:
///   A (16 x 16): a[0] = (g, 2t..2t+1), a[1] = (g+8, 2t..), a[2] = (g, 2t+8..), a[3] = (g+8, 2t+8..)
///   B (16 x 8):  b0 = (2t..2t+1, g), b1 = (2t+8.., g)
///   C (16 x 8):  c[0], c[1] = (g, 2t), (g, 2t+1); c[2], c[3] = (g+8, 2t), (g+8, 2t+1)
/// load_matrix_x4: lane l gives the address of row l % 8 of matrix l / 8 (8 x 8 elements, 16 bytes a row); r[i] holds
/// of matrix i the elements (g, 2t..2t+1), and (2t..2t+1, g) in the transposed form.
namespace fovea::ops::cuda {

/// The two element types of the tensor cores. Tags only: elements are moved as bits.
struct BFloat16 {};
struct Float16 {};
/// Not for tensor cores.
struct Float32 {};

/// How elements of a type lie in memory.
template <typename T>
struct ElementBits {
  using Type = uint16_t;
};
template <>
struct ElementBits<Float32> {
  using Type = uint32_t;
};

using Shared = uint32_t;  // byte address in the block's shared memory

struct Float2 {
  float x, y;
};
struct alignas(16) Words4 {
  uint32_t x, y, z, w;
};

}  // namespace fovea::ops::cuda

#ifdef FOVEA_CUDA_HOST_HEADER
#include FOVEA_CUDA_HOST_HEADER
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define FOVEA_DEVICE __device__ __forceinline__
#define FOVEA_HOST_DEVICE __host__ __device__ __forceinline__
#define FOVEA_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)

namespace fovea::ops::cuda {

FOVEA_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
FOVEA_DEVICE int64_t block_index() {
  return static_cast<int64_t>(blockIdx.x);
}

/// The dynamic shared memory of the block, aligned to 1024 bytes.
FOVEA_DEVICE Shared shared_begin() {
  extern __shared__ __align__(1024) unsigned char fovea_shared[];
  return static_cast<Shared>(__cvta_generic_to_shared(fovea_shared));
}

FOVEA_DEVICE void block_barrier() {
  __syncthreads();
}
/// Orders the shared-memory accesses of the lanes of one warp.
FOVEA_DEVICE void warp_barrier() {
  __syncwarp();
}

FOVEA_DEVICE float shuffle_xor(float x, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFu, x, mask);
}
FOVEA_DEVICE uint32_t shuffle_xor(uint32_t x, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFu, x, mask);
}
FOVEA_DEVICE int shuffle_xor(int x, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFu, x, mask);
}

/// x, but the compiler does not know: what depends on it is computed where it is used, not kept in registers from
/// before a loop.
FOVEA_DEVICE int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
FOVEA_DEVICE uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// 2^x to about 2 ulp; 0 for -infinity.
FOVEA_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FOVEA_DEVICE float log2_of(float x) {
  return log2f(x);
}

template <typename T>
FOVEA_DEVICE uint32_t pack(float low, float high);
template <>
FOVEA_DEVICE uint32_t pack<BFloat16>(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <>
FOVEA_DEVICE uint32_t pack<Float16>(float low, float high) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

template <typename T>
FOVEA_DEVICE float to_float(uint32_t bits);
template <>
FOVEA_DEVICE float to_float<BFloat16>(uint32_t bits) {
  return __uint_as_float(bits << 16);
}
template <>
FOVEA_DEVICE float to_float<Float16>(uint32_t bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(static_cast<uint16_t>(bits)));
  return y;
}

template <>
FOVEA_DEVICE float to_float<Float32>(uint32_t bits) {
  return __uint_as_float(bits);
}

/// d += a * b, 16 x 8 x 16, 16-bit factors, float32 sums.
template <typename T>
FOVEA_DEVICE void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
FOVEA_DEVICE void multiply_add<BFloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
FOVEA_DEVICE void multiply_add<Float16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

FOVEA_DEVICE void load_matrix_x4(uint32_t (&r)[4], Shared address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
FOVEA_DEVICE void load_matrix_x4_transposed(uint32_t (&r)[4], Shared address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Starts copying 16 bytes; where not `valid` nothing is read, wherever `from` points, and zeros are written.
FOVEA_DEVICE void copy_async(Shared to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
}
FOVEA_DEVICE void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `Pending` committed groups of this thread are under way. Other threads see the copies after
/// the next barrier.
template <int Pending>
FOVEA_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

FOVEA_DEVICE void shared_store(Shared to, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
FOVEA_DEVICE void shared_store(Shared to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}
FOVEA_DEVICE void shared_store(Shared to, int x) {
  shared_store(to, static_cast<uint32_t>(x));
}
FOVEA_DEVICE uint32_t shared_load(Shared from) {
  uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
  return x;
}
FOVEA_DEVICE float shared_load_float(Shared from) {
  return __uint_as_float(shared_load(from));
}
FOVEA_DEVICE int shared_load_int(Shared from) {
  return static_cast<int>(shared_load(from));
}
FOVEA_DEVICE Float2 shared_load_float2(Shared from) {
  Float2 v;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
  return v;
}
FOVEA_DEVICE Words4 shared_load4(Shared from) {
  Words4 v;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

}  // namespace fovea::ops::cuda

#endif
