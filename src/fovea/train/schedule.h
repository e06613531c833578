#pragma once

#include <cstdint>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::train {

/// A learning rate as a pure function of the step: nothing to save, nothing to resume.
struct Schedule : config::Section {
  /// What to multiply the optimizer's learning rate by at `step` (from 0).
  virtual double factor(int64_t step) const = 0;
};

/// constant: 1, after a linear warm-up.
struct ConstantSchedule : Schedule {
  int64_t warmup_steps = 0;
  void fields(config::Fields& f) override;
  double factor(int64_t step) const override;
};

/// inverse_sqrt: linear warm-up to 1 at warmup_steps, then falling as sqrt(warmup_steps / step)
/// (Vaswani et al. 2017, scaled so that the peak is the learning rate).
struct InverseSqrtSchedule : Schedule {
  int64_t warmup_steps = 4000;
  void fields(config::Fields& f) override;
  double factor(int64_t step) const override;
};

/// cosine: linear warm-up, then half a cosine down to `floor` at total_steps, and `floor` from there on.
struct CosineSchedule : Schedule {
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double floor = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  double factor(int64_t step) const override;
};

/// step: multiplied by `gamma` every `every` steps, after a linear warm-up.
struct StepSchedule : Schedule {
  int64_t warmup_steps = 0;
  int64_t every = 1000;
  double gamma = 0.5;
  void fields(config::Fields& f) override;
  double factor(int64_t step) const override;
};

std::vector<config::NamedEntry> all_schedules();

}  // namespace fovea::train
