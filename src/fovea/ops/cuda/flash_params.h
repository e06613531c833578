#pragma once

#include <cstdint>

#include "fovea/ops/philox.h"

/// What the flash-attention kernels get: pointers, strides and sizes. See fovea/ops/flash_attention.h for the meaning.
namespace fovea::ops::cuda {

/// In elements. `batch` is 0 for packed tensors, whose rows start at an offset instead.
struct Strides {
  int64_t batch = 0, head = 0, row = 0;
};

/// The last axis is contiguous. 16-bit tensors: bases and strides are multiples of 16 bytes.
struct FlashParams {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  void* output = nullptr;
  float* lse = nullptr;
  Strides query_strides, key_strides, value_strides, output_strides, lse_strides;

  const void* grad_output = nullptr;
  float* delta = nullptr;  // sum over channels of grad_output * output; lies as lse does
  void* grad_query = nullptr;
  void* grad_key = nullptr;
  void* grad_value = nullptr;
  Strides grad_output_strides, grad_query_strides, grad_key_strides, grad_value_strides;

  const int32_t* query_offsets = nullptr;  // packed
  const int32_t* key_offsets = nullptr;
  const int64_t* query_lens = nullptr;
  const int64_t* valid_lens = nullptr;
  int64_t valid_lens_batch = 0, valid_lens_query = 0;  // strides; the second is 0 where all queries share one length

  const void* bias = nullptr;  // of the query's type
  int64_t bias_batch = 0, bias_head = 0, bias_query = 0, bias_key = 0;
  // float32 (grad_bias_batches, grad_bias_heads, max_query, max_key), contiguous; 1 or all of the batches and heads.
  float* grad_bias = nullptr;
  int32_t grad_bias_batches = 1, grad_bias_heads = 1;

  int32_t batch = 0, heads = 0;
  int32_t max_query = 0, max_key = 0;   // padded: the tensors' sizes
  int32_t head_dim = 0, value_dim = 0;  // multiples of 8, for float32 any
  int32_t window_left = -1, window_right = -1;
  bool causal = false;
  bool is_float16 = false, is_float32 = false;  // else bfloat16

  float scale = 1.0f;
  uint64_t drop_threshold = 0;  // a word below it drops its weight; 0: no dropout
  float keep_scale = 1.0f;
  PhiloxKey philox = {};
};

/// How to launch a kernel over the whole of a FlashParams.
struct LaunchShape {
  int64_t blocks;
  int threads;
  int shared_bytes;
};

}  // namespace fovea::ops::cuda
