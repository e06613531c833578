#include "fovea/ops/flash_attention_problem.h"

#include <ATen/ATen.h>

#include <cmath>

namespace fovea::ops {
namespace {

bool given(const OptionalTensor& t) {
  return t.has_value() && t->defined();
}

// Offsets must be int32 (batch + 1); on the CPU they must also rise from 0 to `total`. Returns the longest sequence.
int64_t check_offsets(const char* name, const at::Tensor& offsets, const at::Tensor& tokens, int64_t longest) {
  TORCH_CHECK(offsets.scalar_type() == at::kInt && offsets.dim() == 1 && offsets.numel() >= 1 &&
                  offsets.is_contiguous() && offsets.device() == tokens.device(),
              "flash_attention: ", name, " must be a contiguous int32 tensor (batch + 1) on ", tokens.device(),
              ", got ", offsets.scalar_type(), " ", offsets.sizes(), " on ", offsets.device());
  if (!offsets.is_cpu()) return longest;
  const auto* o = offsets.const_data_ptr<int32_t>();
  const int64_t batch = offsets.numel() - 1;
  TORCH_CHECK(o[0] == 0 && o[batch] == tokens.size(0), "flash_attention: ", name, " must run from 0 to ",
              tokens.size(0), ", got ", o[0], " to ", o[batch]);
  int64_t found = 0;
  for (int64_t b = 0; b < batch; ++b) {
    TORCH_CHECK(o[b] <= o[b + 1], "flash_attention: ", name, " must not fall, got ", o[b], " then ", o[b + 1]);
    found = std::max<int64_t>(found, o[b + 1] - o[b]);
  }
  TORCH_CHECK(longest <= 0 || found <= longest, "flash_attention: ", name, " hold a sequence of ", found,
              " tokens, said were at most ", longest);
  return longest > 0 ? longest : found;
}

void check_lens(const char* name, const at::Tensor& lens, const at::Tensor& query, bool per_query) {
  const bool shape = (lens.dim() == 1 && lens.size(0) == query.size(0)) ||
                     (per_query && lens.dim() == 2 && lens.size(0) == query.size(0) && lens.size(1) == query.size(2));
  TORCH_CHECK(shape && lens.scalar_type() == at::kLong && lens.device() == query.device(), "flash_attention: ", name,
              " must be int64 (", query.size(0), ")", per_query ? " or with one for each query" : "", " on ",
              query.device(), ", got ", lens.scalar_type(), " ", lens.sizes(), " on ", lens.device());
}

}  // namespace

FlashAttentionProblem check_flash_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            FOVEA_FLASH_ATTENTION_PARAMETERS) {
  FlashAttentionProblem p;
  p.packed = given(query_offsets) || given(key_offsets);
  const int64_t rank = p.packed ? 3 : 4;
  TORCH_CHECK(
      query.dim() == rank && key.dim() == rank && value.dim() == rank, "flash_attention: ",
      p.packed ? "packed tensors are (total, heads, head_dim)" : "padded tensors are (batch, heads, steps, head_dim)",
      ", got query ", query.sizes(), ", key ", key.sizes(), ", value ", value.sizes());
  TORCH_CHECK(query.scalar_type() == at::kFloat || query.scalar_type() == at::kDouble ||
                  query.scalar_type() == at::kBFloat16 || query.scalar_type() == at::kHalf,
              "flash_attention: query must be float32, float64, bfloat16 or float16, got ", query.scalar_type());
  TORCH_CHECK(key.scalar_type() == query.scalar_type() && value.scalar_type() == query.scalar_type(),
              "flash_attention: one dtype for all, got query ", query.scalar_type(), ", key ", key.scalar_type(),
              ", value ", value.scalar_type());
  TORCH_CHECK(key.device() == query.device() && value.device() == query.device(),
              "flash_attention: one device for all, got query on ", query.device(), ", key on ", key.device(),
              ", value on ", value.device());
  p.head_dim = query.size(-1);
  p.value_dim = value.size(-1);
  TORCH_CHECK(key.size(-1) == p.head_dim, "flash_attention: query and key must have one head_dim, got ", p.head_dim,
              " and ", key.size(-1));
  TORCH_CHECK(p.head_dim >= 1 && p.head_dim <= 256 && p.value_dim >= 1 && p.value_dim <= 256,
              "flash_attention: head_dim must be in [1, 256], got ", p.head_dim, " and ", p.value_dim, " for values");
  p.heads = query.size(1);
  TORCH_CHECK(key.size(1) == p.heads && value.size(1) == p.heads, "flash_attention: one number of heads for all, got ",
              p.heads, ", ", key.size(1), " and ", value.size(1));
  if (p.packed) {
    TORCH_CHECK(given(query_offsets) && given(key_offsets), "flash_attention: packed takes both offsets, got only ",
                given(query_offsets) ? "query_offsets" : "key_offsets");
    TORCH_CHECK(!given(query_lens) && !given(valid_lens),
                "flash_attention: query_lens and valid_lens go with padded tensors; offsets say the lengths");
    TORCH_CHECK(key.size(0) == value.size(0), "flash_attention: keys and values must be as many, got ", key.size(0),
                " and ", value.size(0));
    TORCH_CHECK(query_offsets->numel() == key_offsets->numel(),
                "flash_attention: offsets of queries and keys must be as many, got ", query_offsets->numel(), " and ",
                key_offsets->numel());
    p.batch = query_offsets->numel() - 1;
    p.queries = check_offsets("query_offsets", *query_offsets, query, max_query.guard_int(__FILE__, __LINE__));
    p.keys = check_offsets("key_offsets", *key_offsets, key, max_key.guard_int(__FILE__, __LINE__));
  } else {
    p.batch = query.size(0);
    p.queries = query.size(2);
    p.keys = key.size(2);
    TORCH_CHECK(key.size(0) == p.batch && value.size(0) == p.batch && value.size(2) == p.keys,
                "flash_attention: batch and keys must match, got query ", query.sizes(), ", key ", key.sizes(),
                ", value ", value.sizes());
    if (given(query_lens)) check_lens("query_lens", *query_lens, query, false);
    if (given(valid_lens)) check_lens("valid_lens", *valid_lens, query, true);
  }
  TORCH_CHECK(window_left >= -1 && window_right >= -1, "flash_attention: a window is -1 or more, got ", window_left,
              " and ", window_right);
  p.window_left = window_left;
  p.window_right = causal ? 0 : window_right;
  TORCH_CHECK(dropout_p >= 0.0 && dropout_p <= 1.0, "flash_attention: dropout_p must be in [0, 1], got ", dropout_p);
  if (dropout_p > 0.0) {
    TORCH_CHECK(given(rng), "flash_attention: dropout_p ", dropout_p, " needs an rng {seed, step, site}");
    TORCH_CHECK(rng->scalar_type() == at::kLong && rng->numel() == 3 && rng->is_cpu() && rng->is_contiguous(),
                "flash_attention: rng must be a contiguous int64 CPU tensor {seed, step, site}, got ",
                rng->scalar_type(), " ", rng->sizes(), " on ", rng->device());
  }
  if (given(bias)) {
    TORCH_CHECK(bias->scalar_type() == query.scalar_type() && bias->device() == query.device(),
                "flash_attention: bias must be ", query.scalar_type(), " on ", query.device(), " as the query, got ",
                bias->scalar_type(), " on ", bias->device());
    const std::array<int64_t, 4> sizes = {p.batch, p.heads, p.queries, p.keys};
    bool fits = bias->dim() <= 4;
    for (int64_t i = 1; fits && i <= bias->dim(); ++i) {
      fits = bias->size(-i) == 1 || bias->size(-i) == sizes[static_cast<size_t>(4 - i)];
    }
    TORCH_CHECK(fits, "flash_attention: bias ", bias->sizes(), " does not broadcast to ", at::IntArrayRef(sizes));
    p.bias = bias->expand(sizes);
  }
  p.scale = scale.has_value() ? *scale : 1.0 / std::sqrt(static_cast<double>(p.head_dim));
  TORCH_CHECK(std::isfinite(p.scale), "flash_attention: scale must be finite, got ", p.scale);
  return p;
}

}  // namespace fovea::ops
