#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/dump.h"
#include "fovea/config/fields.h"
#include "fovea/config/read.h"
#include "fovea/data/data_module.h"
#include "fovea/train/entries.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/runtime.h"
#include "fovea/train/schedule.h"

namespace fovea::train {

/// `train:`.
struct TrainConfig : config::Section {
  int64_t max_epochs = 10;
  std::optional<int64_t> max_steps;
  std::optional<double> max_minutes;
  double clip_norm = 1.0;
  int64_t accumulate = 1;
  int64_t validate_every = 1;
  std::optional<int64_t> validate_every_steps;
  std::optional<int64_t> evaluate_every;
  std::string watch = "validation";
  std::optional<int64_t> patience;
  std::optional<double> ema_decay;
  std::optional<std::filesystem::path> init_from;
  std::vector<std::string> init_only;
  std::optional<std::filesystem::path> init_map;
  std::vector<std::string> freeze;
  int64_t keep_last = 2;
  std::optional<int64_t> checkpoint_every;
  int64_t log_every = 10;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// A whole experiment: one YAML file.
struct ExperimentConfig : config::Section {
  int64_t seed = 0;
  config::Named model, data, optimizer, schedule;
  TrainConfig train;
  RuntimeConfig runtime;

  explicit ExperimentConfig(const Entries& entries);
  void fields(config::Fields& f) override;

  /// The settings that differ from their defaults, and the four names.
  std::vector<config::KeyValue> chosen_settings() const;

  /// Where the data lie, as settings: "data.path=FILE".
  std::vector<std::string> data_files() const;

  const Entries& entries() const { return entries_; }
  const data::DataEntry& data_entry() const;
  std::unique_ptr<data::DataModule> make_data(std::shared_ptr<const data::DataAssets> assets = nullptr) const;
  /// What a part needs, for a trained model's assets: see DataEntry::make_part.
  std::unique_ptr<data::DataModule> make_data_part(std::shared_ptr<const data::DataAssets> assets,
                                                   data::Part part) const;
  /// Seeds torch's generator, so that the initial weights are a function of the seed.
  std::unique_ptr<Module> make_model(const data::DataSpec& spec) const;

 private:
  Entries entries_;
};

/// default < file < "key=value" arguments; a usage Error for anything wrong. `whose`: a file that a run saved may lack
/// keys that are younger.
ExperimentConfig load_experiment(const Entries& entries, const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides = {},
                                 config::Document whose = config::Document::kUsers);

/// An experiment of a document that is in memory; errors name the places that its nodes have.
ExperimentConfig read_experiment(const Entries& entries, const config::Node& document,
                                 config::Document whose = config::Document::kUsers);

/// The optimizer steps of a whole training: train.max_epochs over the training part, or train.max_steps. As many
/// batches are taken for each epoch as the first one has.
int64_t training_steps(const ExperimentConfig& config, const data::DataModule& data, int64_t ranks = 1);

}  // namespace fovea::train
