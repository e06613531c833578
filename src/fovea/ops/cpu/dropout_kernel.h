#pragma once

#include <cstdint>
#include <type_traits>

#include "fovea/ops/philox.h"

namespace fovea::ops {

struct RowIndex {
  uint32_t row, sequence, head;
};

/// out[j] = word(j) >= draw.threshold ? in[j] * draw.keep_scale : 0, for one row of `columns` elements. SIMD,
/// dispatched at run time.
void dropout_row(const float* in, float* out, int64_t columns, RowIndex index, const DropoutDraw& draw);

/// The same for the types that are rare enough here not to deserve SIMD: double in tests, half precision.
template <typename T>
void dropout_row(const T* in, T* out, int64_t columns, RowIndex index, const DropoutDraw& draw) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (int64_t block = 0; 4 * block < columns; ++block) {
    const auto words =
        philox(element_counter(static_cast<uint32_t>(block), index.row, index.sequence, index.head), draw.key);
    for (int64_t lane = 0; lane < 4 && 4 * block + lane < columns; ++lane) {
      const int64_t j = 4 * block + lane;
      out[j] = words[lane] >= draw.threshold
                   ? static_cast<T>(static_cast<Wide>(in[j]) * static_cast<Wide>(draw.keep_scale))
                   : static_cast<T>(0);
    }
  }
}

}  // namespace fovea::ops
