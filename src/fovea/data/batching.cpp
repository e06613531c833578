#include "fovea/data/batching.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int64_t kPoolBatches = 100;

// std::shuffle and the distributions may differ between standard libraries; std::mt19937_64 and this may not.
template <typename T>
void shuffle(std::vector<T>& items, uint64_t seed, int64_t epoch, uint32_t purpose) {
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(epoch),
                         purpose};
  std::mt19937_64 random(sequence);
  for (size_t i = items.size(); i > 1; --i) {
    // The bias of the remainder is below 2^-32 for any corpus that fits in memory.
    std::swap(items[i - 1], items[random() % i]);
  }
}

constexpr uint32_t kExamples = 0, kBatches = 1;

// Cuts an order of examples into batches within the limits.
BatchPlan cut(const std::vector<int64_t>& order, const std::vector<int64_t>& lengths, const BatchingOptions& o) {
  BatchPlan plan;
  std::vector<int64_t> batch;
  int64_t longest = 0;
  for (const int64_t example : order) {
    const int64_t length = std::max(longest, lengths[static_cast<size_t>(example)]);
    const auto size = static_cast<int64_t>(batch.size()) + 1;
    const bool full = size > o.batch_size || (o.batch_tokens > 0 && size * length > o.batch_tokens);
    if (full && !batch.empty()) {
      plan.push_back(std::move(batch));
      batch = {};
      longest = 0;
    }
    longest = std::max(longest, lengths[static_cast<size_t>(example)]);
    batch.push_back(example);
  }
  if (!batch.empty()) plan.push_back(std::move(batch));
  return plan;
}

void check(const BatchingOptions& o) {
  if (o.batch_size < 1) fail_usage("batch_size must be at least 1, got {}", o.batch_size);
  if (o.batch_tokens < 0) fail_usage("batch_tokens must not be negative, got {}", o.batch_tokens);
}

}  // namespace

std::vector<int64_t> shuffled(int64_t size, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  shuffle(order, seed, epoch, kExamples);
  return order;
}

BatchPlan plan_training_batches(const std::vector<int64_t>& lengths, const BatchingOptions& options, uint64_t seed,
                                int64_t epoch) {
  check(options);
  const auto size = static_cast<int64_t>(lengths.size());
  std::vector<int64_t> order = shuffled(size, seed, epoch);
  if (options.bucket) {
    const int64_t pool = std::min(size, options.batch_size * kPoolBatches);
    for (int64_t begin = 0; begin < size; begin += pool) {
      std::stable_sort(order.begin() + begin, order.begin() + std::min(size, begin + pool), [&](int64_t a, int64_t b) {
        return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
      });
    }
  }
  BatchPlan plan = cut(order, lengths, options);
  if (options.bucket) shuffle(plan, seed, epoch, kBatches);
  return plan;
}

BatchPlan plan_evaluation_batches(const std::vector<int64_t>& lengths, const BatchingOptions& options) {
  check(options);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
  });
  return cut(order, lengths, options);
}

}  // namespace fovea::data
