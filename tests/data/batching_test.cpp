#include "fovea/data/batching.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "fovea/core/error.h"
#include "tests/catch.h"

using namespace fovea;

namespace {

std::vector<int64_t> some_lengths(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + (i * 7919) % 31);
  return lengths;
}

void check_every_example_once(const data::BatchPlan& plan, int64_t count) {
  std::multiset<int64_t> seen;
  for (const auto& batch : plan) {
    CHECK_FALSE(batch.empty());
    seen.insert(batch.begin(), batch.end());
  }
  CHECK(seen.size() == static_cast<size_t>(count));
  CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == static_cast<size_t>(count));
}

}  // namespace

TEST_CASE("the order of examples is a function of seed and epoch") {
  CHECK(data::shuffled(100, 1, 2) == data::shuffled(100, 1, 2));
  CHECK(data::shuffled(100, 1, 2) != data::shuffled(100, 1, 3));
  CHECK(data::shuffled(100, 1, 2) != data::shuffled(100, 2, 2));
  // The same on every platform and in every later version: runs are resumed.
  CHECK(data::shuffled(8, 0, 0) == data::shuffled(8, 0, 0));
  CHECK(data::shuffled(0, 1, 1).empty());
}

TEST_CASE("batches hold every example once, within the limits") {
  for (const int64_t count : {0, 1, 3, 64, 65, 1000}) {
    const auto lengths = some_lengths(count);
    for (const bool bucket : {false, true}) {
      for (const int64_t tokens : {0, 200}) {
        const data::BatchingOptions options{.batch_size = 64, .batch_tokens = tokens, .bucket = bucket};
        const auto plan = data::plan_training_batches(lengths, options, 3, 1);
        check_every_example_once(plan, count);
        CHECK(plan == data::plan_training_batches(lengths, options, 3, 1));
        for (const auto& batch : plan) {
          CHECK(batch.size() <= 64);
          int64_t longest = 0;
          for (const int64_t i : batch) longest = std::max(longest, lengths[static_cast<size_t>(i)]);
          if (tokens > 0 && batch.size() > 1) CHECK(longest * static_cast<int64_t>(batch.size()) <= tokens);
        }
        check_every_example_once(data::plan_evaluation_batches(lengths, options), count);
      }
    }
  }
}

TEST_CASE("C18: 3 pairs or 65 with batches of 64 train on the partial batch") {
  CHECK(data::plan_training_batches(some_lengths(3), {.batch_size = 64}, 0, 0).size() == 1);
  const auto plan = data::plan_training_batches(some_lengths(65), {.batch_size = 64}, 0, 0);
  REQUIRE(plan.size() == 2);
  CHECK(plan[1].size() == 1);
}

TEST_CASE("bucketing leaves little padding") {
  const auto lengths = some_lengths(5000);
  const auto padding = [&](bool bucket) {
    int64_t padded = 0;
    for (const auto& batch : data::plan_training_batches(lengths, {.batch_size = 50, .bucket = bucket}, 1, 1)) {
      int64_t longest = 0;
      for (const int64_t i : batch) longest = std::max(longest, lengths[static_cast<size_t>(i)]);
      padded += longest * static_cast<int64_t>(batch.size());
    }
    return padded - std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  };
  CHECK(padding(true) * 10 < padding(false));
}

TEST_CASE("C42: an example beyond the token budget is a batch by itself") {
  std::vector<int64_t> lengths(100, 5);
  lengths[17] = 5000;
  const auto plan = data::plan_training_batches(lengths, {.batch_size = 64, .batch_tokens = 100}, 1, 1);
  check_every_example_once(plan, 100);
  for (const auto& batch : plan) {
    if (std::find(batch.begin(), batch.end(), 17) != batch.end()) CHECK(batch.size() == 1);
  }
}

TEST_CASE("batch limits that make no sense are usage errors") {
  CHECK_THROWS_WITH(data::plan_training_batches({1}, {.batch_size = 0}, 0, 0), ContainsSubstring("batch_size"));
  CHECK_THROWS_WITH(data::plan_evaluation_batches({1}, {.batch_size = 1, .batch_tokens = -1}),
                    ContainsSubstring("batch_tokens"));
}
