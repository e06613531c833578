#include "fovea/metrics/confusion.h"

#include <torch/torch.h>

#include <cmath>

#include "tests/test.h"

using namespace fovea;

TEST_CASE("confusion matrix and scores of a case done by hand") {
  metrics::ConfusionMatrix matrix(3);
  CHECK(std::isnan(matrix.accuracy()));
  // Class 0: two right, one taken for 1. Class 1: one right, one taken for 0. Class 2: never met, never guessed.
  matrix.add(at::tensor({0, 0, 0}, at::kLong), at::tensor({0, 1, 0}, at::kLong));
  matrix.add(at::tensor({1, 1}, at::kLong), at::tensor({0, 1}, at::kLong));
  CHECK(matrix.count(0, 0) == 2);
  CHECK(matrix.count(0, 1) == 1);
  CHECK(matrix.count(1, 0) == 1);
  CHECK(matrix.count(1, 1) == 1);
  CHECK(matrix.total() == 5);
  CHECK(matrix.correct() == 3);
  CHECK(matrix.accuracy() == Approx(0.6));
  const auto zero = matrix.score(0), one = matrix.score(1), two = matrix.score(2), mean = matrix.mean_score();
  CHECK(zero.precision == Approx(2.0 / 3));
  CHECK(zero.recall == Approx(2.0 / 3));
  CHECK(zero.f1 == Approx(2.0 / 3));
  CHECK(zero.support == 3);
  CHECK(one.precision == Approx(0.5));
  CHECK(one.recall == Approx(0.5));
  CHECK(two.support == 0);
  CHECK(mean.f1 == Approx((2.0 / 3 + 0.5) / 2));
  CHECK(mean.support == 5);
}

TEST_CASE("C56: what is 0/0 is no number, and no part of a mean") {
  metrics::ConfusionMatrix matrix(4);
  // Class 0 is always right. Class 1 is there and never guessed. Class 2 is guessed and never there. Class 3 is
  // neither.
  matrix.add(at::tensor({0, 0, 1}, at::kLong), at::tensor({0, 0, 2}, at::kLong));
  CHECK(std::isnan(matrix.score(1).precision));
  CHECK(matrix.score(1).recall == 0);
  CHECK(matrix.score(1).f1 == 0);
  CHECK(matrix.score(2).precision == 0);
  CHECK(std::isnan(matrix.score(2).recall));
  CHECK(matrix.score(2).f1 == 0);
  CHECK(std::isnan(matrix.score(3).precision));
  CHECK(std::isnan(matrix.score(3).recall));
  CHECK(std::isnan(matrix.score(3).f1));
  const auto mean = matrix.mean_score();
  CHECK(mean.precision == Approx(1.0 / 2));
  CHECK(mean.recall == Approx(1.0 / 2));
  CHECK(mean.f1 == Approx(1.0 / 3));
  CHECK(mean.support == 3);
  CHECK(std::isnan(metrics::ConfusionMatrix(2).mean_score().f1));
}

TEST_CASE("a confusion matrix refuses classes that there are not") {
  metrics::ConfusionMatrix matrix(3);
  CHECK_THROWS_WITH(matrix.add(at::tensor({3}, at::kLong), at::tensor({0}, at::kLong)),
                    ContainsSubstring("0 to 2") && ContainsSubstring("3"));
  CHECK_THROWS_WITH(matrix.add(at::tensor({0}, at::kLong), at::tensor({-1}, at::kLong)), ContainsSubstring("-1"));
  CHECK_THROWS_WITH(matrix.add(at::tensor({0, 1}, at::kLong), at::tensor({1}, at::kLong)),
                    ContainsSubstring("2 labels and 1 prediction"));
  CHECK(matrix.total() == 0);
}
