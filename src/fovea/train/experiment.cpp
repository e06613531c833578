#include "fovea/train/experiment.h"

#include <torch/torch.h>

#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/core/runtime.h"
#include "fovea/nn/linear.h"

namespace fovea::train {
namespace {

template <typename Entry>
std::vector<config::NamedEntry> names_of(const std::vector<Entry>& entries) {
  std::vector<config::NamedEntry> named;
  for (const auto& entry : entries) named.push_back(entry.named);
  return named;
}

template <typename Entry>
const Entry& find(const std::vector<Entry>& entries, const std::string& name) {
  for (const auto& entry : entries) {
    if (entry.named.name == name) return entry;
  }
  fail_usage("there is nothing named '{}'", name);
}

}  // namespace

void TrainConfig::fields(config::Fields& f) {
  f("max_epochs", max_epochs, "times through the training examples", config::at_least(1));
  f("max_steps", max_steps, "stop after so many optimizer steps", config::at_least(1));
  f("max_minutes", max_minutes, "stop after so many minutes of training, earlier runs of a resumed one counted",
    config::above(0));
  f("clip_norm", clip_norm, "the gradient's norm at most; 0: no limit", config::at_least(0));
  f("accumulate", accumulate, "batches whose gradients make one optimizer step", config::range(1, 4096));
  f("validate_every", validate_every, "epochs between two validations", config::at_least(1));
  f("watch", watch,
    "what decides which checkpoint is the best: the lowest loss in validation (in training where there is none) or in "
    "train, or the highest accuracy in validation",
    config::choice({"validation", "train", "accuracy"}));
  f("patience", patience, "stop after what is watched was not better so many times in a row", config::at_least(1));
  f("ema_decay", ema_decay,
    "validate and keep for use an exponential moving average of the weights that remembers this share per step",
    config::half_open(0, 1));
  f("keep_last", keep_last, "checkpoints to keep besides the best", config::range(1, 1000));
  f("checkpoint_every", checkpoint_every, "steps between two checkpoints, besides those at the end of each epoch",
    config::at_least(1));
  f("log_every", log_every, "steps between two lines of metrics.jsonl", config::at_least(1));
}

void RuntimeConfig::fields(config::Fields& f) {
  f("device", device, "auto takes CUDA where there is a usable GPU", config::choice({"auto", "cpu", "cuda"}));
  f("threads", threads, "CPU threads; 0: as many as there are cores", config::range(0, 1024));
  f("matmul", matmul, "what multiplies matrices on the CPU; auto takes oneDNN where MKL leaves AVX-512 unused",
    config::choice({"auto", "mkl", "onednn"}));
}

at::Device RuntimeConfig::set_up() const {
  nn::set_matmul_library(matmul == "mkl"      ? nn::MatmulLibrary::kMkl
                         : matmul == "onednn" ? nn::MatmulLibrary::kOneDnn
                                              : nn::MatmulLibrary::kAuto);
  return set_up_runtime(device, threads);
}

ExperimentConfig::ExperimentConfig(const Registry& registry) : registry_(registry) {
  optimizer.name = "adam";
  schedule.name = "constant";
}

void ExperimentConfig::fields(config::Fields& f) {
  f("seed", seed, "decides the split, the initial weights, the order of examples and dropout", config::at_least(0));
  f.named("model", model, names_of(registry_.models), "the network and its loss");
  f.named("data", data, names_of(registry_.datasets), "what it learns from");
  f.named("optimizer", optimizer, all_optimizers(), "how weights change");
  f.named("schedule", schedule, all_schedules(), "the learning rate over the steps");
  f.section("train", train, "the training loop");
  f.section("runtime", runtime, "where it computes");
}

const data::DataEntry& ExperimentConfig::data_entry() const {
  return find(registry_.datasets, data.name);
}

std::unique_ptr<data::DataModule> ExperimentConfig::make_data(std::shared_ptr<const data::DataAssets> assets) const {
  return data_entry().make(*data.section, static_cast<uint64_t>(seed), std::move(assets));
}

std::unique_ptr<Module> ExperimentConfig::make_model(const data::DataSpec& spec) const {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return find(registry_.models, model.name).make(*model.section, spec);
}

ExperimentConfig load_experiment(const Registry& registry, const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides) {
  config::Node document = config::load_yaml(path);
  for (const auto& argument : overrides) config::apply_override(document, argument);
  ExperimentConfig experiment(registry);
  config::read(experiment, document);
  return experiment;
}

}  // namespace fovea::train
