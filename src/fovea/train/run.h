#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "fovea/train/experiment.h"
#include "fovea/train/train_state.h"

namespace fovea::train {

/// A trained model ready for use, without its training data. Where the run averages its weights (train.ema_decay), it
/// has the averages.
struct LoadedRun {
  ExperimentConfig config;
  std::shared_ptr<const data::DataAssets> assets;
  std::unique_ptr<Module> module;  // on `device`, in evaluation mode
  at::Device device;
  std::filesystem::path checkpoint;  // its directory; it was whole, but a training run may have removed it since
  TrainState state{};                // of the training that led there
  std::string config_yaml{};         // the config as the checkpoint has it, resolved
};

/// Loads a checkpoint of a run: `which` as CheckpointStore::open takes it. `overrides` may set `runtime.*`, and where
/// the data lie now (paths of `data.*`).
/// Throws Error for a directory that holds no run, a damaged checkpoint, or weights of another model.
LoadedRun load_run(const Entries& entries, const std::filesystem::path& run, const std::string& which = "",
                   const std::vector<std::string>& overrides = {});

}  // namespace fovea::train
