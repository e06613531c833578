#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "fovea/core/progress.h"
#include "fovea/data/data_module.h"
#include "fovea/train/experiment.h"
#include "fovea/train/metrics_log.h"
#include "fovea/train/run_directory.h"
#include "fovea/train/train_state.h"
#include "fovea/train/weight_average.h"

namespace fovea::train {

enum class StopReason { kEpochs, kSteps, kMinutes, kPatience, kSignal };
const char* stop_reason_text(StopReason reason);

/// Means over a part of the data.
struct Evaluation {
  struct Measure {
    std::string name;
    double mean = 0;
  };
  double loss = 0;
  int64_t count = 0;              // that the loss is a mean over: tokens, images
  std::vector<Measure> measures;  // all that the module measures, "loss" first

  /// Throws Error where there is no such measure.
  double mean(const std::string& name) const;
};

/// What the module's validation_step measures, in evaluation mode and without gradients; training mode is restored.
Evaluation evaluate_module(Module& module, const data::DataModule& data, data::Part part, at::Device device);

/// Throws a usage Error when train.watch names what the model or the data do not have.
void check_watched(const ExperimentConfig& config, const Module& module, const data::DataModule& data);

/// d2l's Trainer: goes through the epochs, steps the optimizer, validates, writes metrics and checkpoints. With the
/// state it keeps, a resumed run is bit for bit the one that was never stopped.
class Trainer {
 public:
  /// All arguments must outlive it. Throws what check_watched does.
  Trainer(const ExperimentConfig& config, Module& module, const data::DataModule& data, const RunDirectory& run,
          at::Device device, Progress& progress);

  /// Takes up weights, optimizer and state from a checkpoint's directory.
  void resume(const std::filesystem::path& checkpoint);

  /// Trains to the end that the config sets, or until a signal asks to stop; the last state is saved either way.
  /// Throws Error when the loss is no longer finite, naming the step; checkpoints stay as they were.
  StopReason fit();

  const TrainState& state() const { return state_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<StopReason> fit_epoch();
  void train_group(const std::vector<data::Batch>& group);
  void settle_losses();
  void check_weights();
  std::string advice() const;
  void log_step();
  void show_progress(int64_t batches);
  void end_epoch();
  Evaluation validate();
  bool watch(double value);  // whether it is the best so far
  void save(bool is_best = false);
  std::optional<StopReason> reason_to_stop() const;
  double elapsed_seconds() const;
  double learning_rate() const;

  const ExperimentConfig& config_;
  const TrainConfig& train_;
  Module& module_;
  const data::DataModule& data_;
  const RunDirectory& run_;
  at::Device device_;
  Progress& progress_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;  // with train.ema_decay
  const Schedule& schedule_;
  std::string config_yaml_;
  std::unique_ptr<MetricsLog> metrics_;

  TrainState state_;
  int64_t saved_step_ = -1;
  Clock::time_point started_;

  // Losses of steps that have not been brought to the host: asking at each step would wait for the device.
  struct Pending {
    int64_t step, count;
    at::Tensor sum, gradient_norm;
  };
  std::vector<Pending> pending_;

  // For the speed since the last line of metrics, which no resumed run has to repeat.
  int64_t window_items_ = 0;
  Clock::time_point window_since_;
  double gradient_norm_ = 0;
  double shown_loss_ = ProgressState::kNone, shown_rate_ = ProgressState::kNone;
};

}  // namespace fovea::train
