#include "fovea/train/assembly.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/core/user_path.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/init_from.h"

namespace fovea::train {
namespace {

// The saved experiment with these settings. One that changes what else hangs on it (a name) may not even read.
ExperimentConfig load_changed(const Entries& entries, const RunDirectory& run,
                              const std::vector<std::string>& overrides, const std::vector<std::string>& allowed) {
  try {
    return load_experiment(entries, run.config_path(), overrides, config::Document::kRuns);
  } catch (const Error&) {
    const auto refused = std::find_if_not(overrides.begin(), overrides.end(), [&](const std::string& argument) {
      return is_below_any(argument.substr(0, argument.find('=')), allowed);
    });
    if (refused == overrides.end()) throw;
    fail_usage("argument '{}': cannot be changed when a run goes on; only {} can", *refused, fmt::join(allowed, ", "));
  }
}

}  // namespace

Assembly::Assembly(ExperimentConfig experiment, bool fresh)
    : config(std::move(experiment)), device(config.runtime.set_up()), data(config.make_data()) {
  module = config.make_model(data->spec());
  const TrainConfig& train = config.train;
  if (fresh && train.init_from) {
    notes = init_from(*module, *data->assets(), config.entries(),
                      {.run = *train.init_from, .only = train.init_only, .map = train.init_map});
  }
  check_prefixes(*module, config.optimizer.as<OptimizerConfig>(), train.freeze);
  module->network().to(device);
  module->prepare_training(config.entries(), *data->assets(), device);
  for (torch::nn::Module* network : module->frozen()) {
    network->to(device);
    network->eval();
  }
  warnings = data->warnings();
  for (const auto& setting : config::path_settings(*config.data.section)) {
    for (const auto& path : setting.paths) {
      if (is_lasting(path)) continue;
      warnings.push_back(
          fmt::format("data.{}: {} can be read only once; to resume this run or to evaluate it on its own parts, give "
                      "the same data again: data.{}=FILE",
                      setting.key, path.string(), setting.key));
    }
  }
  if (data->size(data::Part::kTrain) > 0) {
    const auto& schedule = config.schedule.as<Schedule>();
    const std::string misfit = train.max_minutes ? "" : schedule.misfit(training_steps(config, *data));
    if (!misfit.empty()) warnings.push_back(misfit);
    if (train.max_minutes && schedule.ends_with_training()) {
      warnings.push_back(
          "train.max_minutes: the learning rate falls until the last of train.max_epochs, which minutes may cut off; "
          "choose as many epochs as fit");
    }
  }
}

std::vector<std::string> data_path_keys(const ExperimentConfig& config) {
  std::vector<std::string> keys;
  for (const auto& setting : config::path_settings(*config.data.section)) keys.push_back("data." + setting.key);
  return keys;
}

const std::vector<std::string>& may_change_on_resume() {
  static const std::vector<std::string> keys = {"train.max_epochs", "train.max_steps", "train.max_minutes",
                                                "train.patience",   "train.log_every", "runtime"};
  return keys;
}

ResumedConfig load_for_resume(const Entries& entries, const RunDirectory& run, const std::filesystem::path& checkpoint,
                              const std::vector<std::string>& overrides) {
  const ExperimentConfig saved = load_experiment(
      entries, checkpoint.empty() ? run.config_path() : checkpoint / kConfigFile, {}, config::Document::kRuns);
  std::vector<std::string> allowed = may_change_on_resume();
  for (auto& key : data_path_keys(saved)) allowed.push_back(std::move(key));
  ResumedConfig resumed{load_changed(entries, run, overrides, allowed), {}};
  const auto refused = config::differences(saved, resumed.config, allowed);
  if (!refused.empty()) {
    fail_usage("{}: cannot be changed from {} to {} when a run goes on; only {} can", refused[0].key, refused[0].before,
               refused[0].after, fmt::join(allowed, ", "));
  }
  for (const auto& d : config::differences(saved, resumed.config)) {
    resumed.changes.push_back(fmt::format("{} from {} to {}", d.key, d.before, d.after));
  }
  return resumed;
}

}  // namespace fovea::train
