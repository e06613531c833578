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
  CHECK(train::ConstantSchedule().factor(0, 200) == 1.0);
  const auto warm = read_schedule<train::ConstantSchedule>("warmup_steps: 4");
  CHECK(warm.factor(0, 200) == 0.25);
  CHECK(warm.factor(3, 200) == 1.0);
  CHECK(warm.factor(1000, 200) == 1.0);
}

TEST_CASE("inverse_sqrt: peaks at the end of the warm-up, then falls as the root") {
  const auto s = read_schedule<train::InverseSqrtSchedule>("warmup_steps: 100");
  CHECK(s.factor(0, 200) == Approx(0.01));
  CHECK(s.factor(99, 200) == 1.0);
  CHECK(s.factor(399, 200) == Approx(0.5));
  for (int64_t step = 0; step < 99; ++step) CHECK(s.factor(step, 200) < s.factor(step + 1, 200));
}

TEST_CASE("cosine: half way at half height, then at its floor for good") {
  const auto s = read_schedule<train::CosineSchedule>("{warmup_steps: 10, total_steps: 110, floor: 0.1}");
  CHECK(s.factor(10, 200) == 1.0);
  CHECK(s.factor(60, 200) == Approx(0.55));
  CHECK(s.factor(110, 200) == Approx(0.1));
  CHECK(s.factor(100000, 200) == Approx(0.1));
  CHECK_THROWS_WITH(read_schedule<train::CosineSchedule>("{warmup_steps: 10, total_steps: 10}"),
                    ContainsSubstring("10 and 10"));
  // Unless told otherwise it ends where the training ends.
  const auto whole = read_schedule<train::CosineSchedule>("{warmup_steps: 10, floor: 0.1}");
  CHECK(whole.factor(10, 110) == 1.0);
  CHECK(whole.factor(60, 110) == Approx(0.55));
  CHECK(whole.factor(110, 110) == Approx(0.1));
}

TEST_CASE("step: cut at each multiple") {
  const auto s = read_schedule<train::StepSchedule>("{every: 5, gamma: 0.5}");
  CHECK(s.factor(4, 200) == 1.0);
  CHECK(s.factor(5, 200) == 0.5);
  CHECK(s.factor(14, 200) == 0.25);
}

TEST_CASE("C51: what does not fit the training is said") {
  const auto cosine = read_schedule<train::CosineSchedule>("total_steps: 116");
  CHECK_THAT(cosine.misfit(232), ContainsSubstring("from step 116 on, but the training has 232 steps"));
  CHECK_THAT(cosine.misfit(100), ContainsSubstring("ends at step 116, but the training ends at step 100"));
  CHECK(cosine.misfit(116).empty());
  CHECK(train::CosineSchedule().misfit(7).empty());
  CHECK_THAT(train::InverseSqrtSchedule().misfit(232), ContainsSubstring("4000") && ContainsSubstring("232"));
  CHECK(train::ConstantSchedule().misfit(1).empty());
}
