#pragma once

#include <cstdint>

namespace fovea::data {

/// One output row of a resize: the weighted sum of `count` input rows, `stride` bytes apart, in PIL's fixed point:
/// out[x] = clip((2^21 + sum of weights[i] * rows[i * stride + x]) >> 22, 0, 255) for x < columns.
void resize_row(const uint8_t* rows, int64_t stride, const int32_t* weights, int64_t count, uint8_t* out,
                int64_t columns);

/// out[i] = (in[i] / 255 - mean) / stddev, in float32 and this order, as torchvision's ToTensor and Normalize: bit for
/// bit the same.
void normalise_row(const uint8_t* in, float* out, int64_t count, float mean, float stddev);

/// out[i] = share * a[i] + (1 - share) * b[i]
void mix_row(const float* a, const float* b, float* out, int64_t count, float share);

}  // namespace fovea::data
