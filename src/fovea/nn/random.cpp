#include "fovea/nn/random.h"

#include <ATen/ATen.h>

#include <limits>

#include "fovea/core/hash.h"

namespace fovea::nn {

namespace {
thread_local RandomScope* innermost = nullptr;
}  // namespace

RandomScope::RandomScope(uint64_t seed, uint64_t step) : outer_(innermost), seed_(seed), step_(step) {
  innermost = this;
}

RandomScope::~RandomScope() {
  innermost = outer_;
}

at::Tensor random_key(int64_t site) {
  if (innermost == nullptr) {
    at::Tensor key = at::randint(std::numeric_limits<int64_t>::max(), {3}, at::kLong);
    key.mutable_data_ptr<int64_t>()[2] = site;
    return key;
  }
  at::Tensor key = at::empty({3}, at::kLong);
  auto* words = key.mutable_data_ptr<int64_t>();
  words[0] = static_cast<int64_t>(innermost->seed_);
  words[1] = static_cast<int64_t>(innermost->step_);
  words[2] = site;
  return key;
}

int64_t site_of(std::string_view path) {
  Fnv1a hash;
  for (const char c : path) hash.add(static_cast<unsigned char>(c));
  return static_cast<int64_t>(hash.value);
}

}  // namespace fovea::nn
