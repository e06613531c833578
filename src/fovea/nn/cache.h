#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace fovea::nn {

/// What layers keep from one decoding step to the next, as a flat list: tensors with the batch first, whatever they
/// are: keys and values of attention, the hidden state of a recurrent cell. A search reorders and drops sentences by
/// one index_select of each tensor and asks nothing else.
///
/// A layer's `make_cache(...)` returns its own tensors, and a module of several layers appends those of its parts.
/// `step(..., CacheCursor&, ...)` takes them in the same order; only the layer knows what they are.
using Cache = std::vector<at::Tensor>;

/// Appends what `part` holds.
void append(Cache& cache, Cache part);

/// Goes over a cache during one step: each layer takes its own tensors from it.
class CacheCursor {
 public:
  explicit CacheCursor(Cache& cache) : cache_(cache) {}

  /// The next tensor. A layer may write into it or put another one in its place. Throws Error when there is none.
  at::Tensor& next();
  /// Throws Error unless all tensors were taken: the cache of another model.
  void check_end() const;

 private:
  Cache& cache_;
  size_t taken_ = 0;
};

}  // namespace fovea::nn
