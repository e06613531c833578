#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "fovea/core/progress.h"
#include "fovea/core/series.h"
#include "fovea/train/experiment.h"
#include "fovea/train/metrics_log.h"
#include "fovea/train/step.h"
#include "fovea/train/train_state.h"

namespace fovea::train {

/// Watches a training: adds up losses, measures the speed, writes lines of metrics, shows progress.
class Monitor {
 public:
  /// All arguments must outlive it. `unit`: what data::Batch::items counts.
  Monitor(const TrainConfig& config, TrainState& state, MetricsLog& metrics, Progress& progress, std::string unit);

  /// Takes note of a step that is done. Its losses stay where they are until somebody wants to know them.
  void add(StepResult result, int64_t step, int64_t items);
  /// Brings the losses of past steps to the host and adds them to the state in order, as doubles: when this happens
  /// does not change the sums. Throws Error, naming the step, for a loss or gradient that is not finite; what
  /// `advice` says ends the message.
  void settle(const std::function<std::string()>& advice);

  /// Writes the means since the last line of metrics. Call settle() first.
  void log_step(double learning_rate, double elapsed_seconds);
  /// Writes what a validation gave.
  void log_validation(const MetricsLog::Values& values);
  void show_progress(int64_t batches, double learning_rate, double elapsed_seconds);

  MetricsLog& metrics() { return metrics_; }
  Progress& progress() { return progress_; }

 private:
  void show_curves();

  using Clock = std::chrono::steady_clock;

  const TrainConfig& config_;
  TrainState& state_;
  MetricsLog& metrics_;
  Progress& progress_;
  std::string unit_;

  struct Pending {
    int64_t step;
    StepResult result;
  };
  std::vector<Pending> pending_;

  // For the speed since the last line of metrics, which no resumed run has to repeat.
  int64_t window_items_ = 0;
  Clock::time_point window_since_ = Clock::now();
  double gradient_norm_ = ProgressState::kNone;
  std::string shown_name_ = "loss";  // of the term that trains
  double shown_loss_ = ProgressState::kNone, shown_rate_ = ProgressState::kNone;
  Series training_{.name = "training"}, validation_{.name = "validation", .style = 1};  // losses by step
};

}  // namespace fovea::train
