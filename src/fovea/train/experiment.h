#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/data_module.h"
#include "fovea/train/module.h"
#include "fovea/train/optimizer.h"
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
  std::string watch = "validation";
  std::optional<int64_t> patience;
  std::optional<double> ema_decay;
  int64_t keep_last = 2;
  std::optional<int64_t> checkpoint_every;
  int64_t log_every = 10;
  void fields(config::Fields& f) override;
};

/// `runtime:`. Where to compute; nothing here changes results beyond rounding.
struct RuntimeConfig : config::Section {
  std::string device = "auto";
  int64_t threads = 0;
  std::string matmul = "auto";
  void fields(config::Fields& f) override;
  at::Device set_up() const;  // see core/runtime.h
};

/// What a program can do: the lists that names in a config are looked up in.
struct Registry {
  std::vector<ModelEntry> models;
  std::vector<data::DataEntry> datasets;
};

/// A whole experiment: one YAML file.
struct ExperimentConfig : config::Section {
  int64_t seed = 0;
  config::Named model, data, optimizer, schedule;
  TrainConfig train;
  RuntimeConfig runtime;

  explicit ExperimentConfig(const Registry& registry);
  void fields(config::Fields& f) override;

  const data::DataEntry& data_entry() const;
  std::unique_ptr<data::DataModule> make_data(std::shared_ptr<const data::DataAssets> assets = nullptr) const;
  /// Seeds torch's generator, so that the initial weights are a function of the seed.
  std::unique_ptr<Module> make_model(const data::DataSpec& spec) const;

 private:
  Registry registry_;
};

/// default < file < "key=value" arguments; a usage Error for anything wrong.
ExperimentConfig load_experiment(const Registry& registry, const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides = {});

}  // namespace fovea::train
