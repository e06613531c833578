#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/progress.h"
#include "fovea/data/data_module.h"
#include "fovea/data/loader.h"
#include "fovea/train/evaluation.h"
#include "fovea/train/experiment.h"
#include "fovea/train/metrics_log.h"
#include "fovea/train/monitor.h"
#include "fovea/train/run_directory.h"
#include "fovea/train/step.h"
#include "fovea/train/train_state.h"
#include "fovea/train/weight_average.h"

namespace fovea::train {

enum class StopReason { kEpochs, kSteps, kMinutes, kPatience, kSignal };
const char* stop_reason_text(StopReason reason);

/// The measure that decides which checkpoint is the best, and where it is measured.
struct Watched {
  enum class Where { kTraining, kValidation, kJudge };
  Where where = Where::kValidation;
  Measure measure;

  /// "loss in validation", "bleu".
  std::string text() const;
};

/// Throws a usage Error where train.watch names nothing that the model or its task measure. It needs no data.
void check_watch(const ExperimentConfig& config, const std::vector<Measure>& measures, const Judge& judge);

/// What train.watch names. Throws a usage Error when the model, the task or the data do not have it.
Watched resolve_watched(const ExperimentConfig& config, const Module& module, const data::DataModule& data,
                        const Judge& judge);

/// d2l's Trainer: goes through the epochs, steps the optimizer, validates, writes metrics and checkpoints. With the
/// state it keeps, a resumed run is bit for bit the one that was never stopped.
class Trainer {
 public:
  /// All arguments but the judge must outlive it. Throws what resolve_watched does.
  Trainer(const ExperimentConfig& config, Module& module, const data::DataModule& data, const RunDirectory& run,
          at::Device device, Progress& progress, Judge judge = {});

  /// Takes up weights, optimizer and state from a checkpoint's directory.
  void resume(const std::filesystem::path& checkpoint);

  /// Trains to the end that the config sets, or until a signal asks to stop. However it ends, the last state is saved
  /// and validated. Throws Error when the loss is no longer finite, naming the step; checkpoints stay as they were.
  StopReason fit();

  /// A setting that ended the training where it stands, and a value with which it would go on.
  struct Limit {
    std::string key, greater;
  };
  /// All that are reached; none where a signal ended the training.
  std::vector<Limit> limits_reached() const;

  const TrainState& state() const { return state_; }
  const Watched& watched() const { return watched_; }

 private:
  using Clock = std::chrono::steady_clock;

  // What one validation gave.
  struct Validated {
    std::string line;               // for the screen
    std::optional<double> watched;  // if the watched measure was among it
  };

  void set_training_mode();
  std::optional<StopReason> fit_epoch();
  std::vector<data::Batch> next_group(data::Loader& loader);
  void settle();
  void check_weights();
  std::optional<int64_t> good_checkpoint() const;
  std::string advice() const;
  void end_epoch();
  void validate_at_step();
  void validate_at_end();
  bool judges(bool is_last) const;
  Validated validate(bool judge);
  bool is_best(std::optional<double> watched);
  void save(bool is_best = false);
  std::optional<StopReason> reason_to_stop() const;
  double elapsed_seconds() const;
  double learning_rate(int64_t step) const;

  const ExperimentConfig& config_;
  const TrainConfig& train_;
  Module& module_;
  const data::DataModule& data_;
  const RunDirectory& run_;
  at::Device device_;
  Progress& progress_;
  Judge judge_;
  Watched watched_;
  TrainingStep step_;
  std::unique_ptr<WeightAverage> average_;  // with train.ema_decay
  const Schedule& schedule_;
  int64_t total_steps_;
  std::string config_yaml_;
  uint64_t frozen_fingerprint_;  // of the networks that only teach
  bool is_bad_ = false;          // the last validation was not finite
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<Monitor> monitor_;

  TrainState state_;
  int64_t saved_step_ = -1;
  Clock::time_point started_;
};

}  // namespace fovea::train
