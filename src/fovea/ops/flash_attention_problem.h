#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <optional>
#include <tuple>

/// What the devices' implementations of flash_attention share: the arguments as they come through the dispatcher,
/// and what they mean once checked.
namespace fovea::ops {

using OptionalTensor = std::optional<at::Tensor>;

// The arguments after the tensors, in the order of the schema.
#define FOVEA_FLASH_ATTENTION_PARAMETERS                                                                              \
  const OptionalTensor &query_offsets, const OptionalTensor &key_offsets, const OptionalTensor &query_lens,           \
      const OptionalTensor &valid_lens, c10::SymInt max_query, c10::SymInt max_key, bool causal, int64_t window_left, \
      int64_t window_right, const OptionalTensor &bias, double dropout_p, const OptionalTensor &rng,                  \
      std::optional<double> scale
#define FOVEA_FLASH_ATTENTION_ARGUMENTS                                                                            \
  query_offsets, key_offsets, query_lens, valid_lens, max_query, max_key, causal, window_left, window_right, bias, \
      dropout_p, rng, scale

/// Sizes and bounds of one call. The content of tensors on other devices than the CPU is not looked at.
struct FlashAttentionProblem {
  bool packed = false;
  int64_t batch = 0, heads = 0, head_dim = 0, value_dim = 0;
  int64_t queries = 0, keys = 0;  // per sequence: the rows of padded tensors, the longest of packed ones
  double scale = 1;
  int64_t window_left = -1, window_right = -1;  // with causal worked in; -1: no bound
  at::Tensor bias;                              // expanded to (batch, heads, queries, keys); undefined if none
};

/// Throws c10::Error where the contract in flash_attention.h is not kept.
FlashAttentionProblem check_flash_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            FOVEA_FLASH_ATTENTION_PARAMETERS);

}  // namespace fovea::ops
