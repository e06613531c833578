#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/core/runtime.h"
#include "fovea/core/table.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/trainer.h"
#include "models/models.h"

namespace fovea::cli {
namespace {

struct TrainOptions {
  std::vector<std::string> positionals;
  std::string run_dir, resume, checkpoint;
  bool has_run_dir = false;
  bool overwrite = false, dry_run = false, quiet = false;
};

// What may differ from the saved config when a run goes on: how long, what is shown, where it computes.
const std::vector<std::string> kMayChange = {"train.max_epochs", "train.max_steps", "train.max_minutes",
                                             "train.log_every", "runtime"};

void print_start(const train::ExperimentConfig& config, const data::DataModule& data, train::Module& module, at::Device device) {
  Table table;
  for (const auto& [key, value] : config::settings(config)) table.add_row({key, value});
  for (const auto& [name, text] : data.describe()) table.add_row({name, text});
  table.add_row({"parameters", std::to_string(train::count_parameters(module.network()))});
  table.add_row({"device", fmt::format("{}, {} threads", device.str(), num_threads())});
  std::cerr << table.str() << std::endl;
}

bool may_change(const std::string& override_argument) {
  const std::string key = override_argument.substr(0, override_argument.find('='));
  return std::any_of(kMayChange.begin(), kMayChange.end(),
                     [&](const std::string& allowed) { return key == allowed || key.starts_with(allowed + "."); });
}

// The saved experiment with these settings. One that changes what else hangs on it (a name) may not even read.
train::ExperimentConfig load_changed(const train::RunDirectory& run, const std::vector<std::string>& overrides) {
  try {
    return train::load_experiment(models::registry(), run.config_path(), overrides);
  } catch (const Error&) {
    const auto refused = std::find_if_not(overrides.begin(), overrides.end(), may_change);
    if (refused == overrides.end()) throw;
    fail_usage("argument '{}': cannot be changed when a run goes on; only {} can", *refused,
               fmt::join(kMayChange, ", "));
  }
}

// The run's config with these settings, checked against the one that the checkpoint was trained with: neither a
// setting nor an edited file may change what makes a resumed run the same run.
train::ExperimentConfig load_for_resume(const train::RunDirectory& run, const std::filesystem::path& checkpoint,
                                 const std::vector<std::string>& overrides, bool quiet) {
  const train::ExperimentConfig saved =
      train::load_experiment(models::registry(), checkpoint.empty() ? run.config_path() : checkpoint / train::kConfigFile);
  train::ExperimentConfig config = load_changed(run, overrides);
  const auto refused = config::differences(saved, config, kMayChange);
  if (!refused.empty()) {
    fail_usage("{}: cannot be changed from {} to {} when a run goes on; only {} can", refused[0].key, refused[0].before,
               refused[0].after, fmt::join(kMayChange, ", "));
  }
  for (const auto& d : config::differences(saved, config)) {
    if (!quiet) std::cerr << "changed: " << d.key << " from " << d.before << " to " << d.after << "\n";
  }
  return config;
}

int finish(const train::ExperimentConfig& config, const train::Trainer& trainer, const train::RunDirectory& run, train::StopReason reason,
           bool quiet) {
  const train::TrainState& state = trainer.state();
  if (!quiet) {
    const char* watched = config.train.watch == "accuracy" ? "accuracy" : "loss";
    std::cerr << fmt::format("{}: step {}, {:.0f} s; ", train::stop_reason_text(reason), state.step, state.elapsed_seconds)
              << (state.best ? fmt::format("best {} {:.4f} at step {}; ", watched, *state.best, state.best_step) : "")
              << run.path().string() << std::endl;
  }
  if (reason != train::StopReason::kSignal) return 0;
  spdlog::warn("stopped by {}; go on with: fovea train --resume {}", stop_signal() == SIGINT ? "SIGINT" : "SIGTERM",
               run.path().string());
  return 128 + stop_signal();
}

int train_new(const TrainOptions& options) {
  if (!options.checkpoint.empty()) fail_usage("--checkpoint goes with --resume only");
  if (options.has_run_dir && options.run_dir.empty()) fail_usage("--run-dir: expected a directory, got an empty name");
  const Arguments arguments = split_arguments(options.positionals);
  const std::filesystem::path file =
      arguments.only("a configuration file, as in: fovea train configs/transformer_tiny.yaml");
  const train::ExperimentConfig config = train::load_experiment(models::registry(), file, arguments.overrides);
  const at::Device device = config.runtime.set_up();
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  module->network().to(device);
  if (!options.quiet || options.dry_run) print_start(config, *data, *module, device);
  if (data->size(data::Part::kTrain) == 0) fail_usage("there is nothing to train on");
  train::check_watched(config, *module, *data);
  if (options.dry_run) {
    std::cerr << "dry run: nothing is trained or written" << std::endl;
    return 0;
  }
  const std::filesystem::path dir =
      options.run_dir.empty() ? std::filesystem::path("runs") / file.stem() : std::filesystem::path(options.run_dir);
  const auto run =
      train::RunDirectory::create(dir, config::dump(config),
                           options.overwrite ? train::RunDirectory::Existing::kOverwrite : train::RunDirectory::Existing::kRefuse);
  catch_stop_signals();
  Progress progress({.quiet = options.quiet});
  train::Trainer trainer(config, *module, *data, run, device, progress);
  const train::StopReason reason = trainer.fit();
  return finish(config, trainer, run, reason, options.quiet);
}

int train_on(const TrainOptions& options) {
  const Arguments arguments = split_arguments(options.positionals);
  if (!arguments.words.empty()) {
    fail_usage("--resume takes its configuration from the run; '{}' is one too many", arguments.words[0]);
  }
  if (!options.run_dir.empty() || options.overwrite) fail_usage("--resume goes with neither --run-dir nor --overwrite");
  const auto run = train::RunDirectory::open(options.resume);
  const train::CheckpointStore store = run.checkpoints();
  std::filesystem::path checkpoint;
  if (!store.list().empty() || !options.checkpoint.empty()) {
    checkpoint = store.open(options.checkpoint.empty() ? "last" : options.checkpoint);
  }
  const train::ExperimentConfig config = load_for_resume(run, checkpoint, arguments.overrides, options.quiet);
  const at::Device device = config.runtime.set_up();
  const auto data = config.make_data();
  if (!checkpoint.empty()) {
    data->assets()->check_same(*config.data_entry().load_assets(*config.data.section, checkpoint));
  }
  const auto module = config.make_model(data->spec());
  module->network().to(device);
  if (!options.quiet || options.dry_run) {
    print_start(config, *data, *module, device);
    std::cerr << (checkpoint.empty() ? std::string("no checkpoint yet: starting from the beginning")
                                     : "going on from " + checkpoint.string())
              << std::endl;
  }
  Progress progress({.quiet = options.quiet});
  train::Trainer trainer(config, *module, *data, run, device, progress);
  if (!checkpoint.empty()) trainer.resume(checkpoint);
  if (options.dry_run) return 0;
  run.replace_config(config::dump(config));
  catch_stop_signals();
  const int64_t steps_before = trainer.state().step;
  const train::StopReason reason = trainer.fit();
  if (trainer.state().step == steps_before && reason != train::StopReason::kSignal && !options.quiet) {
    std::cerr << "nothing was left to do; a greater train.max_epochs goes on\n";
  }
  return finish(config, trainer, run, reason, options.quiet);
}

}  // namespace

void add_train(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<TrainOptions>();
  auto* command = app.add_subcommand("train", "Train a model from a YAML file");
  add_arguments(*command, options->positionals, "CONFIG.yaml and settings: key=value ...");
  auto* run_dir =
      command->add_option("--run-dir", options->run_dir, "Where the run is kept (default: runs/<name of the file>)");
  command->add_option("--resume", options->resume, "Go on with this run from its last checkpoint");
  command->add_option("--checkpoint", options->checkpoint,
                      "With --resume: go on from best, last or step-N (default: last)");
  command->add_flag("--overwrite", options->overwrite, "Replace a run that is there");
  command->add_flag("--dry-run", options->dry_run, "Read the data, build the model, print the table, and stop");
  command->add_flag("--quiet", options->quiet, "Print warnings and errors only");
  command->footer(
      "Examples:\n"
      "  fovea train configs/transformer_tiny.yaml train.max_epochs=5 --run-dir runs/short\n"
      "  fovea train --resume runs/short train.max_epochs=10\n"
      "`fovea config explain` lists every setting.");
  commands.emplace_back(command, [options, run_dir] {
    options->has_run_dir = run_dir->count() > 0;
    return options->resume.empty() ? train_new(*options) : train_on(*options);
  });
}

}  // namespace fovea::cli
