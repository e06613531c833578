#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fovea::translation {

/// Sequences of ids in rows of one length.
struct Padded {
  at::Tensor tokens;  // int64 (batch, longest)
  std::vector<int64_t> lengths;
};

/// `row(i)` is the i-th sequence.
template <typename Row>
Padded pad_rows(size_t count, int64_t fill, Row row) {
  Padded padded;
  int64_t longest = 0;
  for (size_t i = 0; i < count; ++i) {
    padded.lengths.push_back(static_cast<int64_t>(row(i).size()));
    longest = std::max(longest, padded.lengths.back());
  }
  padded.tokens = at::full({static_cast<int64_t>(count), longest}, fill, at::kLong);
  for (size_t i = 0; i < count; ++i) {
    const auto& ids = row(i);
    std::copy(ids.begin(), ids.end(), padded.tokens.mutable_data_ptr<int64_t>() + static_cast<int64_t>(i) * longest);
  }
  return padded;
}

}  // namespace fovea::translation
