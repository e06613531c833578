#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::train {

/// A learning rate as a pure function of the step: nothing to save, nothing to resume.
struct Schedule : config::Section {
  /// What to multiply the optimizer's learning rate by at `step` (from 0) of a training of `total` steps.
  virtual double factor(int64_t step, int64_t total) const = 0;
  /// What does not fit a training of `total` steps, in words; empty where all is well.
  virtual std::string misfit(int64_t total) const;
  /// Whether the rate falls until the end of the training, so that the end must be known.
  virtual bool ends_with_training() const { return false; }

 protected:
  /// Set by heirs that have a warm-up.
  virtual int64_t warmup() const { return 0; }
};

/// constant: 1, after a linear warm-up.
struct ConstantSchedule : Schedule {
  int64_t warmup_steps = 0;
  void fields(config::Fields& f) override;
  double factor(int64_t step, int64_t total) const override;

 protected:
  int64_t warmup() const override { return warmup_steps; }
};

/// inverse_sqrt: linear warm-up to 1 at warmup_steps, then falling as sqrt(warmup_steps / step)
/// (Vaswani et al. 2017, scaled so that the peak is the learning rate).
struct InverseSqrtSchedule : Schedule {
  int64_t warmup_steps = 4000;
  void fields(config::Fields& f) override;
  double factor(int64_t step, int64_t total) const override;

 protected:
  int64_t warmup() const override { return warmup_steps; }
};

/// cosine: linear warm-up, then half a cosine down to `floor` at total_steps, and `floor` from there on. Unless
/// total_steps says otherwise it ends where the training ends.
struct CosineSchedule : Schedule {
  int64_t warmup_steps = 0;
  std::optional<int64_t> total_steps;
  double floor = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  double factor(int64_t step, int64_t total) const override;
  std::string misfit(int64_t total) const override;
  bool ends_with_training() const override { return !total_steps; }

 protected:
  int64_t warmup() const override { return warmup_steps; }
};

/// step: multiplied by `gamma` every `every` steps, after a linear warm-up.
struct StepSchedule : Schedule {
  int64_t warmup_steps = 0;
  int64_t every = 1000;
  double gamma = 0.5;
  void fields(config::Fields& f) override;
  double factor(int64_t step, int64_t total) const override;

 protected:
  int64_t warmup() const override { return warmup_steps; }
};

std::vector<config::NamedEntry> all_schedules();

}  // namespace fovea::train
