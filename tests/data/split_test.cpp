#include "fovea/data/split.h"

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

using namespace fovea;

namespace {

using Indices = std::vector<int64_t>;

/// Source i stands 1 + i % 3 times in a row.
std::vector<std::string> some_sources(int num_sources) {
  std::vector<std::string> sources;
  for (int i = 0; i < num_sources; ++i)
    sources.insert(sources.end(), static_cast<size_t>(1 + i % 3), fmt::format("s{}", i));
  return sources;
}

std::set<std::string> names(const std::vector<std::string>& sources, const Indices& part) {
  std::set<std::string> found;
  for (const int64_t i : part) found.insert(sources.at(static_cast<size_t>(i)));
  return found;
}

std::string split_error(size_t size, double validation, double test) {
  std::vector<std::string> sources;
  for (size_t i = 0; i < size; ++i) sources.push_back(std::to_string(i));
  return error_of([&] { data::split_by_source(sources, {.validation = validation, .test = test}); });
}

}  // namespace

TEST_CASE("no source is in two parts, every example in one", "[split]") {
  const auto sources = some_sources(1000);
  for (const uint64_t seed : {0u, 1u, 42u}) {
    const data::Split split = data::split_by_source(sources, {.validation = 0.05, .test = 0.1, .seed = seed});
    Indices all;
    std::set<std::string> seen;
    for (const Indices* part : {&split.train, &split.validation, &split.test}) {
      CHECK(std::is_sorted(part->begin(), part->end()));
      all.insert(all.end(), part->begin(), part->end());
      for (const auto& name : names(sources, *part)) CHECK(seen.insert(name).second);
    }
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == sources.size());
    for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<int64_t>(i));
    CHECK(split.validation.size() == 100);  // of 1999
    CHECK(split.test.size() == 200);
  }
}

TEST_CASE("the split depends on seed and sources, not on the order or the platform", "[split]") {
  const std::vector<std::string> sources = {"go .", "hi .", "run !", "wow !", "fire !", "help !", "jump .", "stop !"};
  const data::SplitSpec spec{.validation = 2, .test = 2, .seed = 1};
  const data::Split split = data::split_by_source(sources, spec);
  CHECK(split.test == Indices{1, 6});
  CHECK(split.validation == Indices{3, 5});

  std::vector<std::string> reversed(sources.rbegin(), sources.rend());
  const data::Split other = data::split_by_source(reversed, spec);
  CHECK(names(reversed, other.test) == names(sources, split.test));
  CHECK(names(reversed, other.validation) == names(sources, split.validation));

  const auto many = some_sources(300);
  const auto test_of = [&](uint64_t seed) { return data::split_by_source(many, {.test = 0.2, .seed = seed}).test; };
  CHECK(test_of(1) == test_of(1));
  CHECK(test_of(1) != test_of(2));
  CHECK(test_of(0) != test_of(uint64_t{1} << 63));
}

TEST_CASE("held-out sources are a fair sample", "[split]") {
  // Neighbouring names must not go together: of each hundred, about 10 are held out.
  std::vector<std::string> sources;
  for (int i = 0; i < 10'000; ++i) sources.push_back(fmt::format("sentence {} .", i));
  const data::Split split = data::split_by_source(sources, {.test = 0.1, .seed = 3});
  REQUIRE(split.test.size() == 1000);
  for (int64_t begin = 0; begin < 10'000; begin += 1000) {
    const auto count =
        std::count_if(split.test.begin(), split.test.end(), [&](int64_t i) { return i >= begin && i < begin + 1000; });
    CHECK(count > 60);
    CHECK(count < 140);
  }
}

TEST_CASE("sizes are fractions or counts", "[split]") {
  const auto sources = some_sources(30);  // 60 examples
  const auto sizes = [&](double validation, double test) {
    const data::Split split = data::split_by_source(sources, {.validation = validation, .test = test, .seed = 5});
    return Indices{static_cast<int64_t>(split.train.size()), static_cast<int64_t>(split.validation.size()),
                   static_cast<int64_t>(split.test.size())};
  };
  CHECK(sizes(0, 0) == Indices{60, 0, 0});
  CHECK(sizes(10, 0.25) == Indices{35, 10, 15});
  CHECK(sizes(1, 1) == Indices{58, 1, 1});
  CHECK(sizes(0.001, 0) == Indices{59, 1, 0});

  // A source too large for its part is passed over; if there is nothing smaller, it goes as a
  // whole.
  const data::Split large = data::split_by_source({"a", "a", "a", "b", "b", "b"}, {.validation = 1});
  CHECK(large.validation.size() == 3);
  CHECK(large.train.size() == 3);
  // Three pairs can still be split.
  const data::Split small = data::split_by_source({"a", "b", "c"}, {.validation = 0.05, .test = 0.05});
  CHECK(small.train.size() == 1);
}

TEST_CASE("a split that leaves nothing to train on is refused with its numbers", "[split]") {
  CHECK_THAT(split_error(3, 2, 1),
             ContainsSubstring("expected examples left to train on after holding out 2 for "
                               "validation and 1 for test, found 3 examples with 3 different sources"));
  CHECK_THAT(split_error(1, 0.1, 0), ContainsSubstring("found 1 example with"));
  CHECK_THAT(split_error(2, 1, 1), ContainsSubstring("found 2 examples"));
  CHECK_THAT(split_error(0, 0, 0), ContainsSubstring("found 0 examples"));
  CHECK_THAT(split_error(10, 500, 0), ContainsSubstring("holding out 500"));
  for (const double bad :
       {-0.1, 1.5, -3.0, 1e300, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK_THAT(split_error(10, 0, bad), ContainsSubstring("test split: expected a fraction below 1 or a whole number"));
  }
}

TEST_CASE("d2l's split is in file order", "[split]") {
  const data::Split split = data::split_in_order(10, 4, 2, 3);
  CHECK(split.train == Indices{0, 1, 2, 3});
  CHECK(split.validation == Indices{4, 5});
  CHECK(split.test == Indices{6, 7, 8});
  CHECK(data::split_in_order(640, 512, 128).test.empty());
  CHECK_THAT(error_of([] { data::split_in_order(600, 512, 128); }),
             ContainsSubstring("expected 512 examples for training, 128 for validation and 0 for test, found 600"));
  CHECK_THROWS_AS(data::split_in_order(10, 0, 2), Error);
  CHECK_THROWS_AS(data::split_in_order(10, 4, -1), Error);
  CHECK_THROWS_AS(data::split_in_order(10, 4, INT64_MAX, INT64_MAX), Error);
}

TEST_CASE("the key of a source joins its tokens", "[split]") {
  CHECK(data::split_key({"go", "."}) == "go .");
  CHECK(data::split_key({}).empty());
}

TEST_CASE("split_by_class gives each class its share", "[split]") {
  std::vector<std::string> sources;
  std::vector<int64_t> classes;
  const auto add = [&](int64_t c, int count) {
    for (int i = 0; i < count; ++i) {
      sources.push_back(std::to_string(c) + "/" + std::to_string(i));
      classes.push_back(c);
    }
  };
  add(0, 50);
  add(1, 30);
  add(2, 3);
  const std::vector<std::string> names = {"a", "b", "c"};
  const auto counts = [&](const std::vector<int64_t>& part) {
    std::vector<int64_t> by_class(3);
    for (const int64_t i : part) ++by_class[static_cast<size_t>(classes[static_cast<size_t>(i)])];
    return by_class;
  };
  const auto split = data::split_by_class(sources, classes, names, {.validation = 0.1, .test = 10, .seed = 3});
  CHECK(counts(split.validation) == std::vector<int64_t>{5, 3, 1});  // one at least of each
  CHECK(counts(split.test) == std::vector<int64_t>{6, 4, 1});
  CHECK(counts(split.train) == std::vector<int64_t>{39, 23, 1});
  CHECK(data::split_by_class(sources, classes, names, {.validation = 0.1, .test = 10, .seed = 3}).test == split.test);
  CHECK(data::split_by_class(sources, classes, names, {.validation = 0.1, .test = 10, .seed = 4}).test != split.test);
  CHECK(data::split_by_class(sources, classes, names, {}).train.size() == 83);
  try {
    data::split_by_class(sources, classes, names, {.validation = 0.5, .test = 0.4, .seed = 3});
    FAIL();
  } catch (const Error& e) {
    CHECK_THAT(std::string(e.what()), ContainsSubstring("the class c has 3 different examples"));
  }
}
