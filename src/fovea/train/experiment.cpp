#include "fovea/train/experiment.h"

#include <torch/torch.h>

#include <algorithm>

#include "fovea/config/checker.h"
#include "fovea/core/error.h"

namespace fovea::train {

void TrainConfig::fields(config::Fields& f) {
  f("max_epochs", max_epochs, "times through the training examples", config::at_least(1));
  f("max_steps", max_steps, "stop after this many optimizer steps", config::at_least(1));
  f("max_minutes", max_minutes, "stop after this many minutes of training; those before a resume count",
    config::above(0));
  f("clip_norm", clip_norm, "maximum gradient norm; 0: no limit", config::at_least(0));
  f("accumulate", accumulate, "batches whose gradients make one optimizer step", config::range(1, 4096));
  f("validate_every", validate_every, "epochs between two validations", config::at_least(1));
  f("validate_every_steps", validate_every_steps, "steps between two validations, besides those by epochs",
    config::at_least(1));
  f("evaluate_every", evaluate_every,
    "epochs between two evaluations with the task's own scores (BLEU); null: only if train.watch names one, then 1",
    config::at_least(1));
  f("watch", watch,
    "the measure that decides which checkpoint is the best: validation (the loss in validation, in training where "
    "there "
    "is none), train (the training loss), or any measure of the model or the task, such as accuracy, perplexity, bleu");
  f("patience", patience, "stop when the watched measure has not improved this many times in a row",
    config::at_least(1));
  f("ema_decay", ema_decay,
    "validate and keep for use an exponential moving average of the weights that remembers this share per step",
    config::half_open(0, 1));
  f("init_from", init_from, "start from the weights of this run instead of random ones");
  f("init_only", init_only, "with init_from: take over only what lies below these prefixes, as in [encoder]");
  f("init_map", init_map, "with init_from: file of lines 'their.name = our.name', as fovea import --map takes it");
  f("freeze", freeze, "prefixes of parameters that are not trained, as in [encoder]");
  f("keep_last", keep_last, "checkpoints to keep besides the best", config::range(1, 1000));
  f("checkpoint_every", checkpoint_every, "steps between two checkpoints, besides those at the end of each epoch",
    config::at_least(1));
  f("log_every", log_every, "steps between two lines of metrics.jsonl", config::at_least(1));
}

void TrainConfig::check(const config::Checker& c) const {
  if (init_from) return;
  if (!init_only.empty()) c.fail("init_only", "needs train.init_from (--init-from RUN)");
  if (init_map) c.fail("init_map", "needs train.init_from (--init-from RUN)");
}

ExperimentConfig::ExperimentConfig(const Entries& entries) : entries_(entries) {
  optimizer.name = "adam";
  schedule.name = "constant";
}

void ExperimentConfig::fields(config::Fields& f) {
  f("seed", seed, "decides the split, the initial weights, the order of examples and dropout", config::at_least(0));
  f.named("model", model, config::named_of(entries_.models), "the network and its loss");
  f.named("data", data, config::named_of(entries_.datasets), "what it learns from");
  f.named("optimizer", optimizer, all_optimizers(), "how weights change");
  f.named("schedule", schedule, all_schedules(), "the learning rate over the steps");
  f.section("train", train, "the training loop");
  f.section("runtime", runtime, "where it computes");
}

std::vector<std::string> ExperimentConfig::data_files() const {
  std::vector<std::string> files;
  for (const auto& setting : config::path_settings(*data.section)) {
    for (const auto& path : setting.paths) files.push_back(fmt::format("data.{}={}", setting.key, path.string()));
  }
  return files;
}

std::vector<config::KeyValue> ExperimentConfig::chosen_settings() const {
  ExperimentConfig defaults(entries_);
  const auto take_name = [](config::Named& to, const config::Named& from, const std::vector<config::NamedEntry>& all) {
    to.name = from.name;
    for (const auto& entry : all) {
      if (entry.name == from.name) to.section = entry.make();
    }
  };
  take_name(defaults.model, model, config::named_of(entries_.models));
  take_name(defaults.data, data, config::named_of(entries_.datasets));
  take_name(defaults.optimizer, optimizer, all_optimizers());
  take_name(defaults.schedule, schedule, all_schedules());
  const auto mine = config::settings(*this), theirs = config::settings(defaults);
  std::vector<config::KeyValue> chosen;
  for (const auto& setting : mine) {
    const bool is_name = setting.key.ends_with(".name");
    if (is_name || std::find(theirs.begin(), theirs.end(), setting) == theirs.end()) chosen.push_back(setting);
  }
  return chosen;
}

const data::DataEntry& ExperimentConfig::data_entry() const {
  return config::entry_named(entries_.datasets, data.name);
}

std::unique_ptr<data::DataModule> ExperimentConfig::make_data(std::shared_ptr<const data::DataAssets> assets) const {
  return data_entry().make(*data.section, static_cast<uint64_t>(seed), std::move(assets));
}

std::unique_ptr<data::DataModule> ExperimentConfig::make_data_part(std::shared_ptr<const data::DataAssets> assets,
                                                                   data::Part part) const {
  return data_entry().make_part(*data.section, static_cast<uint64_t>(seed), std::move(assets), part);
}

std::unique_ptr<Module> ExperimentConfig::make_model(const data::DataSpec& spec) const {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return config::entry_named(entries_.models, model.name).make(*model.section, spec);
}

ExperimentConfig load_experiment(const Entries& entries, const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides, config::Document whose) {
  config::Node document = config::load_yaml(path);
  for (const auto& argument : overrides) config::apply_override(document, argument);
  return read_experiment(entries, document, whose);
}

ExperimentConfig read_experiment(const Entries& entries, const config::Node& document, config::Document whose) {
  ExperimentConfig experiment(entries);
  config::read(experiment, document, whose);
  return experiment;
}

int64_t training_steps(const ExperimentConfig& config, const data::DataModule& data, int64_t ranks) {
  const auto batches = static_cast<int64_t>(data.plan(data::Part::kTrain, 0).size());
  const int64_t each = config.train.accumulate * ranks;
  const int64_t steps = config.train.max_epochs * ((batches + each - 1) / each);
  return config.train.max_steps ? std::min(steps, *config.train.max_steps) : steps;
}

}  // namespace fovea::train
