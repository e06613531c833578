#include "fovea/nn/positions.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/size.h"

namespace fovea::nn {

Rotation rotation_of(const at::Tensor& positions, int64_t head_dim, const at::Tensor& like) {
  if (head_dim % 2 != 0) fail("rotary positions: the width of a head must be even, got {}", head_dim);
  const auto type = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const double step = -2 * std::log(10000.0) / static_cast<double>(head_dim);
  const at::Tensor frequencies = at::exp(arange(head_dim / 2, positions).to(type) * step);  // (head_dim / 2)
  const at::Tensor angle = positions.to(type).unsqueeze(-1) * frequencies;                  // (n, head_dim / 2)
  return {angle.cos(), angle.sin()};
}

at::Tensor rotate(const at::Tensor& x, const Rotation& rotation, bool packed) {
  const auto angles = [&](const at::Tensor& t) {
    const at::Tensor typed = t.to(x.scalar_type());
    return packed ? typed.unsqueeze(1) : typed;  // (n, 1, head_dim / 2) or (n, head_dim / 2)
  };
  const at::Tensor cos = angles(rotation.cos), sin = angles(rotation.sin);
  const at::Tensor pairs = x.unflatten(-1, {-1, 2});                              // (..., head_dim / 2, 2)
  const at::Tensor first = pairs.select(-1, 0), second = pairs.select(-1, 1);     // (..., head_dim / 2)
  return at::stack({first * cos - second * sin, first * sin + second * cos}, -1)  // (..., head_dim / 2, 2)
      .flatten(-2);                                                               // (..., head_dim)
}

at::Tensor alibi_slopes(int64_t num_heads, const at::Tensor& like) {
  if (num_heads < 1) fail("ALiBi: expected at least one head, got {}", num_heads);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_heads)));
  const at::Tensor head = arange(num_heads, like);  // (heads)
  const auto n = static_cast<double>(power);
  const at::Tensor own = (head + 1).to(at::kFloat) * (-8 / n);
  const at::Tensor between = ((head - power) * 2 + 1).to(at::kFloat) * (-4 / n);
  return at::exp2(at::where(head < power, own, between));
}

at::Tensor alibi_bias(const at::Tensor& query_positions, const at::Tensor& key_positions, int64_t num_heads) {
  const at::Tensor distance = (query_positions.unsqueeze(1) - key_positions.unsqueeze(0)).abs();  // (queries, keys)
  const at::Tensor slopes = alibi_slopes(num_heads, key_positions).view({1, -1, 1, 1});
  return distance.to(at::kFloat) * -slopes;  // (1, heads, queries, keys)
}

at::Tensor t5_buckets(const at::Tensor& distance, bool both_directions, int64_t num_buckets, int64_t max_distance) {
  const int64_t buckets = both_directions ? num_buckets / 2 : num_buckets, near = buckets / 2;
  const at::Tensor far = both_directions ? distance.abs() : (-distance).clamp_min(0);
  const double steps =
      static_cast<double>(buckets - near) / std::log(static_cast<double>(max_distance) / static_cast<double>(near));
  const at::Tensor logarithmic = ((far.to(at::kFloat) / static_cast<double>(near)).log() * steps).to(at::kLong) + near;
  const at::Tensor bucket = at::where(far < near, far, logarithmic.clamp_max(buckets - 1));
  return both_directions ? bucket + (distance > 0) * buckets : bucket;
}

}  // namespace fovea::nn
