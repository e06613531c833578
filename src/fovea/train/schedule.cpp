#include "fovea/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/config/checker.h"
#include "fovea/core/counted.h"

namespace fovea::train {
namespace {

// 1/warmup at the first step, 1 at step warmup - 1 and later.
double warm_up(int64_t step, int64_t warmup_steps) {
  return step < warmup_steps ? static_cast<double>(step + 1) / static_cast<double>(warmup_steps) : 1.0;
}

void warmup_field(config::Fields& f, int64_t& warmup_steps) {
  f("warmup_steps", warmup_steps, "steps over which the learning rate grows linearly to its full value",
    config::at_least(0));
}

}  // namespace

std::string Schedule::misfit(int64_t total) const {
  if (warmup() == 0 || warmup() < total) return {};
  return fmt::format(
      "schedule.warmup_steps: the warm-up has {}, the training only {}: the learning rate never reaches its full "
      "value",
      counted(warmup(), "step"), total);
}

void ConstantSchedule::fields(config::Fields& f) {
  warmup_field(f, warmup_steps);
}

double ConstantSchedule::factor(int64_t step, int64_t /*total*/) const {
  return warm_up(step, warmup_steps);
}

void InverseSqrtSchedule::fields(config::Fields& f) {
  f("warmup_steps", warmup_steps,
    "steps over which the learning rate grows linearly; from there it falls as 1 / sqrt(step)", config::at_least(1));
}

double InverseSqrtSchedule::factor(int64_t step, int64_t /*total*/) const {
  const double now = static_cast<double>(step + 1), warmup = static_cast<double>(warmup_steps);
  return std::min(now / warmup, std::sqrt(warmup / now));
}

void CosineSchedule::fields(config::Fields& f) {
  warmup_field(f, warmup_steps);
  f("total_steps", total_steps, "the step at which the cosine reaches its floor; null: the end of the training",
    config::at_least(1));
  f("floor", floor, "what is left at the end, as a share of the learning rate", config::range(0, 1));
}

void CosineSchedule::check(const config::Checker& c) const {
  if (total_steps && *total_steps <= warmup_steps) {
    c.fail("total_steps", "must be more than warmup_steps, got {} and {}", *total_steps, warmup_steps);
  }
}

double CosineSchedule::factor(int64_t step, int64_t total) const {
  if (step < warmup_steps) return warm_up(step, warmup_steps);
  const auto length = static_cast<double>(std::max<int64_t>(1, total_steps.value_or(total) - warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) / length);
  return floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

std::string CosineSchedule::misfit(int64_t total) const {
  if (!total_steps || *total_steps == total) return Schedule::misfit(total);
  if (*total_steps < total) {
    return fmt::format(
        "schedule.total_steps: the learning rate is at its floor from step {} on, but the training has {}",
        *total_steps, counted(total, "step"));
  }
  return fmt::format("schedule.total_steps: the cosine ends at step {}, but the training ends at step {}", *total_steps,
                     total);
}

void StepSchedule::fields(config::Fields& f) {
  warmup_field(f, warmup_steps);
  f("every", every, "steps between two cuts", config::at_least(1));
  f("gamma", gamma, "what a cut multiplies the learning rate by", config::above(0, 1));
}

double StepSchedule::factor(int64_t step, int64_t /*total*/) const {
  return warm_up(step, warmup_steps) * std::pow(gamma, static_cast<double>(step / every));
}

std::vector<config::NamedEntry> all_schedules() {
  return {
      {"constant", "the learning rate as it is, after a warm-up", [] { return std::make_shared<ConstantSchedule>(); }},
      {"inverse_sqrt", "warm-up, then 1 / sqrt(step) (Vaswani et al. 2017)",
       [] { return std::make_shared<InverseSqrtSchedule>(); }},
      {"cosine", "warm-up, then half a cosine down to a floor", [] { return std::make_shared<CosineSchedule>(); }},
      {"step", "multiplied by gamma at equal distances", [] { return std::make_shared<StepSchedule>(); }}};
}

}  // namespace fovea::train
