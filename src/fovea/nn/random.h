#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace fovea::nn {

/// Sets (seed, step) for the random draws of everything called below it on this thread. A draw is a pure function
/// of (seed, step, site, element): see ops/dropout.h. Scopes nest; the innermost counts.
class RandomScope {
 public:
  RandomScope(uint64_t seed, uint64_t step);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomScope* outer_;
  friend at::Tensor random_key(int64_t site);
  uint64_t seed_, step_;
};

/// {seed, step, site} as the ops take it: int64 (3) on the CPU. Outside any scope, seed and step come from torch's
/// default generator, so that a layer used alone behaves as torch's own does.
at::Tensor random_key(int64_t site);

/// The site number of a module's path, the same in every process: FNV-1a.
int64_t site_of(std::string_view path);

}  // namespace fovea::nn
