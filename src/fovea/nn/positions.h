#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/core/enum_names.h"

/// How a model knows the order of its tokens. An encoding is added to the embeddings (nn/positional_encoding.h), or
/// attention itself compares positions: it turns queries and keys, or a bias is added to its scores. Whatever works
/// on scores comes as a bias of the AttentionMask (nn/attention_mask.h).
namespace fovea::nn {

enum class Positions {
  kSinusoidal,  // added: Vaswani et al. 2017; d2l 11.6
  kLearned,     // added: a parameter
  kNone,        // order does not matter, except for what a causal mask tells
  kRotary,      // queries and keys are turned: Su et al., "RoFormer", 2021
  kAlibi,       // the scores fall with the distance: Press et al., "Train short, test long", 2022
  kT5,          // a learnt bias of each head for each distance: Raffel et al., "T5", 2020
};

constexpr auto enum_names(Positions) {
  return std::to_array<EnumName<Positions>>({{Positions::kSinusoidal, "sinusoidal"},
                                             {Positions::kLearned, "learned"},
                                             {Positions::kNone, "none"},
                                             {Positions::kRotary, "rotary"},
                                             {Positions::kAlibi, "alibi"},
                                             {Positions::kT5, "t5"}});
}

/// Angles by which pairs of elements are turned: (positions, head_dim / 2) each.
struct Rotation {
  at::Tensor cos, sin;
};

/// The pair (2c, 2c + 1) of a token at position p is turned by p / 10000^(2c / head_dim). `positions`: int64 (n).
/// float64 for a `like` of that type, else float32. Throws Error for an odd head_dim.
Rotation rotation_of(const at::Tensor& positions, int64_t head_dim, const at::Tensor& like);

/// Turns the pairs of x's last axis. x (..., n, head_dim) with the angles of its n rows; or (n, heads, head_dim),
/// packed tokens, where `packed`. The product of a turned query and a turned key depends on the difference of their
/// positions.
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation, bool packed = false);

/// The slope of each head, float32 (heads), on the device of `like`: 2^(-8/n), 2^(-16/n), ... for n heads where n is a
/// power of two; else those of the next lower power of two, then every second one of the next higher power.
at::Tensor alibi_slopes(int64_t num_heads, const at::Tensor& like);

/// -slope * |i - j| for query position i and key position j: float32 (1, heads, queries, keys). Positions are int64.
at::Tensor alibi_bias(const at::Tensor& query_positions, const at::Tensor& key_positions, int64_t num_heads);

/// T5's buckets of distances: the nearer half of them one by one, the rest in logarithmic steps up to `max_distance`,
/// beyond which all are one. Both directions have buckets of their own, or, for attention that looks back only, keys
/// ahead share the bucket of distance 0. `distance`: int64, key position less query position. Returns its shape.
at::Tensor t5_buckets(const at::Tensor& distance, bool both_directions, int64_t num_buckets, int64_t max_distance);

}  // namespace fovea::nn
