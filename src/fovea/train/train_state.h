#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fovea::data {
class DataModule;
}

namespace fovea::train {

/// A term of the training loss added up over steps.
struct TermSum {
  std::string name;
  double sum = 0;
  int64_t count = 0;

  double mean() const;  // NaN of nothing
};

/// Terms by name, in the order in which they first came.
class TermSums {
 public:
  void add(const std::string& name, double sum, int64_t count);
  const std::vector<TermSum>& all() const { return terms_; }
  /// The mean of the term of that name, NaN where there is none.
  double mean(const std::string& name) const;
  void clear() { terms_.clear(); }

 private:
  std::vector<TermSum> terms_;
};

/// All that a training run knows besides weights and optimizer state. Orders, learning rates and random draws are
/// functions of it, so this is enough to go on as if nothing had happened.
struct TrainState {
  int64_t epoch = 0;  // the one under way
  int64_t batch = 0;  // batches of it that are done
  int64_t step = 0;   // optimizer steps done

  TermSums epoch_terms;   // over the epoch so far
  TermSums window_terms;  // since the last line of metrics

  std::optional<double> best;  // of what is watched
  int64_t best_step = 0;
  int64_t validations_without_best = 0;
  int64_t validated_step = -1;  // the step of the last validation
  int64_t good_step = -1;       // of the last checkpoint whose weights were not found bad by a validation

  double elapsed_seconds = 0;
  uint64_t data_fingerprint = 0;     // see DataModule::fingerprint
  std::vector<uint64_t> data_parts;  // DataModule::part_fingerprint of train, validation and test; empty if unknown
  uint64_t frozen_fingerprint = 0;   // of the networks that only teach; 0 where there are none
  uint64_t metrics_bytes = 0;        // of metrics.jsonl: a resumed run cuts off what came after
};

/// Takes note of what the data are. What is known of the test part stays: training does not look at it.
void note_data(TrainState& state, const data::DataModule& data);
/// Whether a run in that state may go on with these data: what it trains and validates on has not changed.
bool may_go_on_with(const TrainState& state, const data::DataModule& data);

/// JSON in which numbers come back bit for bit.
void save_state(const TrainState& state, const std::filesystem::path& path);
/// Throws Error naming the file and the key that is missing, extra or of the wrong type. States of fovea 0.1 are read
/// too.
TrainState load_state(const std::filesystem::path& path);

}  // namespace fovea::train
