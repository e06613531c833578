#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fovea::train {

/// The processes (or threads) that train one model together, each on a share of the batches. Micro-batches are numbered
/// over all ranks, so that N ranks draw and compute what one rank with `accumulate` times N does.
/// This class is the world of one rank; heirs connect several. Every rank makes the same calls in the same order.
class World {
 public:
  virtual ~World() = default;
  virtual int64_t rank() const { return 0; }
  virtual int64_t size() const { return 1; }
  /// Replaces each tensor by the sum over all ranks. All ranks give tensors of the same shapes and get the same bits.
  virtual void sum(const std::vector<at::Tensor>& /*tensors*/) {}
  /// The greatest of the numbers that the ranks give: what all of them agree on.
  virtual int64_t agree(int64_t number) { return number; }
};

}  // namespace fovea::train
