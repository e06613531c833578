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
///   model.safetensors       the weights to use: parameters and persistent buffers by name; tied ones once, the others
///                           in "aliases". With train.ema_decay these are the averages
///   raw.safetensors         with train.ema_decay only: the same as they are being trained, to go on from
///   optimizer.safetensors   the optimizer's tensors by "<parameter>.<slot>"
///   state.json              TrainState
///   config.yaml             the resolved experiment
///   and the data's assets (vocabularies)
/// Until 0.1, model.safetensors always held the weights being trained, and ema.safetensors the averages. Such
/// checkpoints are read too.
namespace fovea::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kRawFile = "raw.safetensors";
inline constexpr const char* kAverageFileOf01 = "ema.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kConfigFile = "config.yaml";

/// What model.safetensors holds.
SafeTensors model_tensors(Module& module);

void save_checkpoint(const std::filesystem::path& dir, Module& module, const Optimizers& optimizers,
                     const TrainState& state, const std::string& config_yaml, const data::DataAssets& assets,
                     WeightAverage* average = nullptr);

/// The file of the weights that are validated and used.
const char* weights_to_use(const std::filesystem::path& dir);
/// Copies the weights to use, or those of `file`, into the network. Throws Error listing every tensor that is missing,
/// extra or of another shape, with saved and expected shape.
void load_weights(const std::filesystem::path& dir, torch::nn::Module& network);
void load_weights(const std::filesystem::path& dir, torch::nn::Module& network, const char* file);
/// Copies the weights being trained into the network, and the averages into `average`, which is null without
/// train.ema_decay. Throws Error as load_weights does.
void load_to_go_on(const std::filesystem::path& dir, torch::nn::Module& network, WeightAverage* average);
void load_optimizer(const std::filesystem::path& dir, Optimizers& optimizers);

}  // namespace fovea::train
