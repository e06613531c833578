#pragma once

#include <cstdint>
#include <vector>

namespace fovea::data {

/// The examples of each batch of an epoch.
using BatchPlan = std::vector<std::vector<int64_t>>;

struct BatchingOptions {
  int64_t batch_size = 64;   // examples in a batch at most
  int64_t batch_tokens = 0;  // examples x longest in a batch at most; 0: no such limit
  bool bucket = false;       // batches of like lengths
};

/// A permutation of 0..size-1, a function of (seed, epoch) alone, the same on every platform.
std::vector<int64_t> shuffled(int64_t size, uint64_t seed, int64_t epoch);

/// Batches in a random order, a function of (lengths, options, seed, epoch) alone. Every example is in one batch; the
/// last may be smaller. An example longer than batch_tokens is a batch by itself. Bucketing sorts by length within
/// pools of 100 batches, so that a batch holds little padding and epochs still differ.
BatchPlan plan_training_batches(const std::vector<int64_t>& lengths, const BatchingOptions& options, uint64_t seed,
                                int64_t epoch);

/// Batches for evaluation: longest first within the same limits, always the same.
BatchPlan plan_evaluation_batches(const std::vector<int64_t>& lengths, const BatchingOptions& options);

}  // namespace fovea::data
