#include "fovea/core/series.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

using fovea::Series;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Series line_of(size_t count) {
  Series series;
  for (size_t i = 0; i < count; ++i) series.add(static_cast<double>(i), static_cast<double>(i) / 2);
  return series;
}

}  // namespace

TEST_CASE("series: smoothing is the debiased exponential average") {
  const Series raw{.x = {1, 2, 3}, .y = {4, 2, 8}};
  CHECK(fovea::smoothed(raw, 0).y == raw.y);
  const Series half = fovea::smoothed(raw, 0.5);
  CHECK(half.y[0] == Approx(4));
  CHECK(half.y[1] == Approx((0.25 * 4 + 0.5 * 2) / 0.75));
  CHECK(half.y[2] == Approx((0.125 * 4 + 0.25 * 2 + 0.5 * 8) / 0.875));
  CHECK(half.x == raw.x);
  const Series constant = fovea::smoothed({.x = {1, 2, 3, 4}, .y = {3, 3, 3, 3}}, 0.99);
  for (const double value : constant.y) CHECK(value == Approx(3));
}

TEST_CASE("series: smoothing leaves gaps and does not count them") {
  const Series gap = fovea::smoothed({.x = {1, 2, 3}, .y = {4, kNan, 2}}, 0.5);
  CHECK(std::isnan(gap.y[1]));
  CHECK(gap.y[2] == Approx((0.25 * 4 + 0.5 * 2) / 0.75));
}

TEST_CASE("series: the weight fits the number of points") {
  CHECK(fovea::fitting_weight(0) == 0);
  CHECK(fovea::fitting_weight(50) == 0);
  CHECK(fovea::fitting_weight(100) == Approx(0.5));
  CHECK(fovea::fitting_weight(5000) == Approx(0.99));
}

TEST_CASE("series: thinned to some points, the ends among them") {
  const Series thin = fovea::thinned(line_of(1000), 7);
  REQUIRE(thin.x.size() == 7);
  CHECK(thin.x.front() == 0);
  CHECK(thin.x.back() == 999);
  for (size_t i = 0; i < 7; ++i) CHECK(thin.y[i] == thin.x[i] / 2);
  for (size_t i = 1; i < 7; ++i) CHECK(thin.x[i] > thin.x[i - 1]);
  CHECK(fovea::thinned(line_of(7), 7).x.size() == 7);
  CHECK(fovea::thinned(line_of(3), 7).x.size() == 3);
  CHECK(fovea::thinned({}, 7).x.empty());
}

TEST_CASE("series: ranges and ticks") {
  CHECK_FALSE(fovea::range_of({}));
  CHECK_FALSE(fovea::range_of({kNan, std::numeric_limits<double>::infinity()}));
  const auto range = fovea::range_of({kNan, 3, -1});
  CHECK((range->low == -1 && range->high == 3));
  const auto flat = fovea::range_of({2, 2});
  CHECK((flat->low < 2 && flat->high > 2));
  CHECK(fovea::range_of({0})->low < 0);
  const auto rounded = fovea::range_of({0.01, 0.010000000000000002});
  CHECK(rounded->high - rounded->low > 1e-4);
  CHECK(fovea::round_ticks(*rounded, 4).size() <= 4);

  CHECK(fovea::round_ticks({0, 10}, 6) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(fovea::round_ticks({0.3, 1.2}, 3) == std::vector<double>{0.5, 1});
  CHECK(fovea::round_ticks({-3, 8}, 3) == std::vector<double>{0, 5});
  for (const double scale : {1e-12, 1e-3, 1.0, 1e9}) {
    for (int most = 1; most < 9; ++most)
      CHECK(fovea::round_ticks({1.3 * scale, 9.7 * scale}, most).size() <= static_cast<size_t>(most));
  }
  CHECK(fovea::tick_text(0.30000000000000004) == "0.3");
  CHECK(fovea::tick_text(12000) == "12000");
}
