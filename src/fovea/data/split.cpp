#include "fovea/data/split.h"

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/ops/philox.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

namespace fovea::data {
namespace {

/// FNV-1a over the seed's bytes and the text, then the finaliser of splitmix64, which spreads FNV's
/// weak high bits.
uint64_t hash_source(std::string_view text, uint64_t seed) {
  Fnv1a hash;
  for (int shift = 0; shift < 64; shift += 8) hash.add(static_cast<uint8_t>(seed >> shift));
  for (const char c : text) hash.add(static_cast<uint8_t>(c));
  return ops::mix64(hash.value);
}

int64_t count_of(std::string_view part, double wanted, int64_t size) {
  const bool is_count = wanted >= 1.0 && wanted <= 1e15 && wanted == std::floor(wanted);
  if (is_count) return static_cast<int64_t>(wanted);
  if (!(wanted >= 0.0 && wanted < 1.0)) {
    fail_usage("{} split: expected a fraction below 1 or a whole number of examples, found {}", part, wanted);
  }
  if (wanted == 0.0) return 0;
  return std::max<int64_t>(1, std::llround(wanted * static_cast<double>(size)));
}

std::vector<int64_t> range(int64_t begin, int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

using Group = std::vector<int64_t>;  // the examples of one source

/// Moves groups to `part`, from the front, while they fit into `count` examples. If none fits, the
/// first one goes: a part that was asked for is not empty.
void hold_out(std::vector<Group>& groups, int64_t count, std::vector<int64_t>& part) {
  if (count == 0 || groups.empty()) return;
  std::vector<Group> rest;
  for (auto& group : groups) {
    if (part.size() + group.size() <= static_cast<size_t>(count)) {
      part.insert(part.end(), group.begin(), group.end());
    } else {
      rest.push_back(std::move(group));
    }
  }
  if (part.empty()) {
    part = std::move(rest.front());
    rest.erase(rest.begin());
  }
  groups = std::move(rest);
  std::sort(part.begin(), part.end());
}

}  // namespace

Split split_by_source(const std::vector<std::string>& sources, const SplitSpec& spec) {
  const auto size = static_cast<int64_t>(sources.size());
  const int64_t num_validation = count_of("validation", spec.validation, size);
  const int64_t num_test = count_of("test", spec.test, size);

  // Ordered by (hash, text): the text settles equal hashes.
  std::map<std::pair<uint64_t, std::string_view>, Group> by_hash;
  for (int64_t i = 0; i < size; ++i) {
    const std::string& source = sources[static_cast<size_t>(i)];
    by_hash[{hash_source(source, spec.seed), source}].push_back(i);
  }
  std::vector<Group> groups;
  groups.reserve(by_hash.size());
  for (auto& [key, group] : by_hash) groups.push_back(std::move(group));
  const size_t num_sources = groups.size();

  Split split;
  hold_out(groups, num_test, split.test);
  hold_out(groups, num_validation, split.validation);
  for (const auto& group : groups) split.train.insert(split.train.end(), group.begin(), group.end());
  std::sort(split.train.begin(), split.train.end());
  const bool is_short = (num_validation > 0 && split.validation.empty()) || (num_test > 0 && split.test.empty());
  if (split.train.empty() || is_short) {
    fail_usage(
        "expected examples left to train on after holding out {} for validation and {} for test, "
        "found {} with {} in all; hold out less (validation.size, test.size)",
        num_validation, num_test, counted(size, "example"), counted(num_sources, "different source"));
  }
  return split;
}

std::string split_key(const std::vector<std::string>& tokens) {
  std::string key;
  for (const auto& token : tokens) {
    if (!key.empty()) key += ' ';
    key += token;
  }
  return key;
}

Split split_in_order(int64_t size, int64_t num_train, int64_t num_validation, int64_t num_test) {
  if (num_train < 1 || num_validation < 0 || num_test < 0) {
    fail_usage(
        "expected at least 1 example to train on and no negative number, found {} for training, {} "
        "for "
        "validation, {} for test",
        num_train, num_validation, num_test);
  }
  if (num_train > size || num_validation > size - num_train || num_test > size - num_train - num_validation) {
    fail_usage("expected {} for training, {} for validation and {} for test, found {} in all",
               counted(num_train, "example"), num_validation, num_test, size);
  }
  return {range(0, num_train), range(num_train, num_validation), range(num_train + num_validation, num_test)};
}

}  // namespace fovea::data
