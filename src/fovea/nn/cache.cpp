#include "fovea/nn/cache.h"

#include <iterator>
#include <utility>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"

namespace fovea::nn {

void append(Cache& cache, Cache part) {
  cache.insert(cache.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
}

at::Tensor& CacheCursor::next() {
  if (taken_ == cache_.size()) {
    fail("decoding: the layers ask for more than the {} of the state; another model made it",
         counted(cache_.size(), "tensor"));
  }
  return cache_[taken_++];
}

void CacheCursor::check_end() const {
  if (taken_ != cache_.size()) {
    fail("decoding: the layers took {} of the {} of the state; another model made it", taken_,
         counted(cache_.size(), "tensor"));
  }
}

}  // namespace fovea::nn
