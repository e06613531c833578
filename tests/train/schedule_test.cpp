#include "fovea/train/schedule.h"

#include <cmath>

#include "fovea/config/read.h"
#include "tests/catch.h"

using namespace fovea;

namespace {

template <typename T>
T read_schedule(const std::string& yaml) {
  T schedule;
  config::read(schedule, config::parse_yaml(yaml, "s.yaml"));
  return schedule;
}

}  // namespace

TEST_CASE("constant: 1, after a warm-up if asked for") {
  CHECK(train::ConstantSchedule().factor(0) == 1.0);
  const auto warm = read_schedule<train::ConstantSchedule>("warmup_steps: 4");
  CHECK(warm.factor(0) == 0.25);
  CHECK(warm.factor(3) == 1.0);
  CHECK(warm.factor(1000) == 1.0);
}

TEST_CASE("inverse_sqrt: peaks at the end of the warm-up, then falls as the root") {
  const auto s = read_schedule<train::InverseSqrtSchedule>("warmup_steps: 100");
  CHECK(s.factor(0) == Approx(0.01));
  CHECK(s.factor(99) == 1.0);
  CHECK(s.factor(399) == Approx(0.5));
  for (int64_t step = 0; step < 99; ++step) CHECK(s.factor(step) < s.factor(step + 1));
}

TEST_CASE("cosine: half way at half height, then at its floor for good") {
  const auto s = read_schedule<train::CosineSchedule>("{warmup_steps: 10, total_steps: 110, floor: 0.1}");
  CHECK(s.factor(10) == 1.0);
  CHECK(s.factor(60) == Approx(0.55));
  CHECK(s.factor(110) == Approx(0.1));
  CHECK(s.factor(100000) == Approx(0.1));
  CHECK_THROWS_WITH(read_schedule<train::CosineSchedule>("{warmup_steps: 10, total_steps: 10}"),
                    ContainsSubstring("10 and 10"));
  CHECK_THROWS_WITH(read_schedule<train::CosineSchedule>("floor: 0"), ContainsSubstring("total_steps"));
}

TEST_CASE("step: cut at each multiple") {
  const auto s = read_schedule<train::StepSchedule>("{every: 5, gamma: 0.5}");
  CHECK(s.factor(4) == 1.0);
  CHECK(s.factor(5) == 0.5);
  CHECK(s.factor(14) == 0.25);
}
