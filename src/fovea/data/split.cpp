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

/// The examples by source, ordered by (hash of seed and text, text): the text settles equal hashes.
std::vector<Group> groups_of(const std::vector<std::string>& sources, uint64_t seed) {
  std::map<std::pair<uint64_t, std::string_view>, Group> by_hash;
  for (size_t i = 0; i < sources.size(); ++i) {
    by_hash[{hash_source(sources[i], seed), sources[i]}].push_back(static_cast<int64_t>(i));
  }
  std::vector<Group> groups;
  groups.reserve(by_hash.size());
  for (auto& [key, group] : by_hash) groups.push_back(std::move(group));
  return groups;
}

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

/// How many of `total` examples each class gives: its share of all, rounded by largest remainders; at least one where
/// they are as many as the classes that have examples.
std::vector<int64_t> shares_of(int64_t total, const std::vector<int64_t>& sizes) {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> shares(sizes.size(), 0);
  if (all == 0) return shares;
  int64_t given = 0;
  std::vector<std::pair<int64_t, size_t>> remainders;  // negative, so that the largest come first
  for (size_t c = 0; c < sizes.size(); ++c) {
    shares[c] = total * sizes[c] / all;
    given += shares[c];
    remainders.emplace_back(-(total * sizes[c] % all), c);
  }
  std::sort(remainders.begin(), remainders.end());
  for (const auto& [remainder, c] : remainders) {
    if (given < total && remainder < 0) ++shares[c], ++given;
  }
  const int64_t present = std::count_if(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
  for (size_t c = 0; c < sizes.size(); ++c) {
    if (total >= present && sizes[c] > 0) shares[c] = std::max<int64_t>(1, shares[c]);
  }
  return shares;
}

}  // namespace

Split split_by_source(const std::vector<std::string>& sources, const SplitSpec& spec) {
  const auto size = static_cast<int64_t>(sources.size());
  const int64_t num_validation = count_of("validation", spec.validation, size);
  const int64_t num_test = count_of("test", spec.test, size);

  std::vector<Group> groups = groups_of(sources, spec.seed);
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

Split split_by_class(const std::vector<std::string>& sources, const std::vector<int64_t>& classes,
                     const std::vector<std::string>& names, const SplitSpec& spec) {
  const auto size = static_cast<int64_t>(sources.size());
  std::vector<std::vector<Group>> groups(names.size());
  std::vector<int64_t> sizes(names.size(), 0);
  for (auto& group : groups_of(sources, spec.seed)) {
    const auto c = static_cast<size_t>(classes[static_cast<size_t>(group.front())]);
    sizes[c] += static_cast<int64_t>(group.size());
    groups[c].push_back(std::move(group));
  }
  const std::vector<int64_t> validation = shares_of(count_of("validation", spec.validation, size), sizes);
  const std::vector<int64_t> test = shares_of(count_of("test", spec.test, size), sizes);

  Split split;
  for (size_t c = 0; c < names.size(); ++c) {
    if (groups[c].empty()) continue;
    const size_t different = groups[c].size();
    std::vector<int64_t> held_test, held_validation;
    hold_out(groups[c], test[c], held_test);
    hold_out(groups[c], validation[c], held_validation);
    if (groups[c].empty() || (validation[c] > 0 && held_validation.empty())) {
      fail_usage(
          "the class {} has {}: too few to hold out {} for validation and {} for test and to train on the others; add "
          "some, or hold out less (validation.size, test.size)",
          names[c], counted(different, "different example"), validation[c], test[c]);
    }
    split.test.insert(split.test.end(), held_test.begin(), held_test.end());
    split.validation.insert(split.validation.end(), held_validation.begin(), held_validation.end());
    for (const auto& group : groups[c]) split.train.insert(split.train.end(), group.begin(), group.end());
  }
  for (auto* part : {&split.train, &split.validation, &split.test}) std::sort(part->begin(), part->end());
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
