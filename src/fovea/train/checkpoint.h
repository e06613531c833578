#pragma once

#include <filesystem>
#include <string>

#include "fovea/data/data_module.h"
#include "fovea/train/module.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/safetensors.h"
#include "fovea/train/train_state.h"
#include "fovea/train/weight_average.h"

/// What stands in a checkpoint's directory (train/checkpoint_store.h says how it gets there whole):
///   model.safetensors       parameters and persistent buffers by name; tied ones once, the others in "aliases"
///   ema.safetensors         the same with averages, where train.ema_decay is set: the weights to use
///   optimizer.safetensors   the optimizer's tensors by "<parameter>.<slot>"
///   state.json              TrainState
///   config.yaml             the resolved experiment
///   and the data's assets (vocabularies)
namespace fovea::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kAverageFile = "ema.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kConfigFile = "config.yaml";

/// What model.safetensors holds.
SafeTensors model_tensors(Module& module);

void save_checkpoint(const std::filesystem::path& dir, Module& module, const Optimizers& optimizers,
                     const TrainState& state, const std::string& config_yaml, const data::DataAssets& assets,
                     WeightAverage* average = nullptr);

/// Copies the weights into the network, those of kModelFile or of kAverageFile. Throws Error listing every tensor that
/// is missing, extra or of another shape, with saved and expected shape.
void load_weights(const std::filesystem::path& dir, torch::nn::Module& network, const char* file = kModelFile);
void load_optimizer(const std::filesystem::path& dir, Optimizers& optimizers);

}  // namespace fovea::train
