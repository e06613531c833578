#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace fovea::train {

/// All that a training run knows besides weights and optimizer state. Orders, learning rates and random draws are
/// functions of it, so this is enough to go on as if nothing had happened.
struct TrainState {
  int64_t epoch = 0;  // the one under way
  int64_t batch = 0;  // batches of it that are done
  int64_t step = 0;   // optimizer steps done

  double loss_sum = 0;  // over the epoch so far
  int64_t loss_count = 0;
  double window_loss_sum = 0;  // since the last line of metrics
  int64_t window_loss_count = 0;

  std::optional<double> best;  // of what is watched: the lowest loss or the highest accuracy so far
  int64_t best_step = 0;
  int64_t validations_without_best = 0;

  double elapsed_seconds = 0;
  uint64_t data_fingerprint = 0;  // see DataModule::fingerprint
  uint64_t metrics_bytes = 0;     // of metrics.jsonl: a resumed run cuts off what came after

  double epoch_loss() const { return loss_count > 0 ? loss_sum / static_cast<double>(loss_count) : 0.0; }
};

/// JSON in which numbers come back bit for bit.
void save_state(const TrainState& state, const std::filesystem::path& path);
/// Throws Error naming the file and the key that is missing, extra or of the wrong type.
TrainState load_state(const std::filesystem::path& path);

}  // namespace fovea::train
