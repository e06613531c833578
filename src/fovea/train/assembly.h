#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/train/experiment.h"
#include "fovea/train/run_directory.h"

namespace fovea::train {

/// What an experiment is made of: config -> device -> data -> model.
struct Assembly {
  ExperimentConfig config;
  at::Device device;
  std::unique_ptr<data::DataModule> data;
  std::unique_ptr<Module> module;                          // on the device, ready to be trained
  std::vector<std::pair<std::string, std::string>> notes;  // of how the weights were initialised, for people
  std::vector<std::string>
      warnings;  // of data with little to learn; of settings that are right one by one, but not together

  /// `fresh`: the weights come from where train.init_from says; else the caller loads them from a checkpoint.
  Assembly(ExperimentConfig experiment, bool fresh);
};

/// The keys of where the data lie, such as data.path. They may change, since the content is compared.
std::vector<std::string> data_path_keys(const ExperimentConfig& config);

/// What may differ from the saved config when a run goes on: how long, what is shown, where it computes.
const std::vector<std::string>& may_change_on_resume();

struct ResumedConfig {
  ExperimentConfig config;
  std::vector<std::string> changes;  // in words
};

/// The run's config with these settings, checked against the one that the checkpoint was trained with: neither a
/// setting nor an edited file may change what makes a resumed run the same run. `checkpoint` is empty where there is
/// none yet. Throws a usage Error that names the setting.
ResumedConfig load_for_resume(const Entries& entries, const RunDirectory& run, const std::filesystem::path& checkpoint,
                              const std::vector<std::string>& overrides);

}  // namespace fovea::train
