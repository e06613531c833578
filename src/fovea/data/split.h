#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::data {

/// Indices of the examples of each part, ascending; no index is in two parts.
struct Split {
  std::vector<int64_t> train, validation, test;
};

/// How much to hold out. A size below 1 is a fraction of the examples, a whole number from 1 on a
/// count of examples, 0 nothing. A fraction above 0 holds out at least one example.
struct SplitSpec {
  double validation = 0.0;
  double test = 0.0;
  uint64_t seed = 0;
};

/// Splits by source sentence: examples with equal sources land in the same part, so that no
/// held-out source was trained on. `sources` holds one string per example, such that equal strings
/// are the same source to the model: its tokens joined by spaces, see split_key().
///
/// The parts are a function of the seed and the set of sources alone, on every platform: sources
/// are ordered by a hash of seed and text and held out from the front while they fit. Sizes are met
/// exactly where the last source that fits allows, else undercut by less than the number of
/// examples a source has.
///
/// Throws Error (kUsage), naming the numbers, for sizes that are no fraction and no count and where
/// nothing would be left to train on.
Split split_by_source(const std::vector<std::string>& sources, const SplitSpec& spec);

/// The same for examples of classes: each class gives its share to each part (largest remainders), at least one example
/// where a part has as many as there are classes. `classes` holds the class of each example, `names` that of each
/// class. Equal sources stay together even if their classes differ; they count as their first example's.
///
/// Throws Error (kUsage) naming the class where one has too few different examples for all parts.
Split split_by_class(const std::vector<std::string>& sources, const std::vector<int64_t>& classes,
                     const std::vector<std::string>& names, const SplitSpec& spec);

/// The tokens of a source as one string; tokens hold no space.
std::string split_key(const std::vector<std::string>& tokens);

/// d2l's split, in file order: the first num_train examples, the next num_validation, the next
/// num_test; the rest is not used. Sources may be in two parts. Throws Error (kUsage) where there
/// are fewer than num_train + num_validation
/// + num_test examples, for negative numbers and for num_train = 0.
Split split_in_order(int64_t size, int64_t num_train, int64_t num_validation, int64_t num_test = 0);

}  // namespace fovea::data
