#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/core/signals.h"
#include "fovea/core/table.h"
#include "fovea/core/terminal.h"
#include "fovea/train/assembly.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/trainer.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

struct TrainFlags {
  std::vector<std::string> positionals;
  std::string run_dir, resume, checkpoint, init_from;
  bool has_run_dir = false;
  bool overwrite = false, dry_run = false, quiet = false;
};

void print_start(const train::Assembly& assembly) {
  Table table({.width = terminal_width(STDERR_FILENO, 0)});
  for (const auto& [key, value] : config::settings(assembly.config)) table.add_row({key, value});
  for (const auto& [name, text] : assembly.data->describe()) table.add_row({name, text});
  table.add_row({"parameters", std::to_string(train::count_parameters(assembly.module->network()))});
  for (const auto& [name, text] : assembly.notes) table.add_row({name, text});
  table.add_row({"device", fmt::format("{}, {} thread{}", assembly.device.str(), train::num_threads(),
                                       train::num_threads() == 1 ? "" : "s")});
  std::cerr << table.str() << std::endl;
}

void print_warnings(const train::Assembly& assembly) {
  for (const auto& warning : assembly.warnings) spdlog::warn("{}", warning);
}

int finish(const train::Trainer& trainer, const train::RunDirectory& run, train::StopReason reason, bool quiet) {
  const train::TrainState& state = trainer.state();
  if (!quiet) {
    const std::string best = state.best ? fmt::format("best {} {} at step {}; ", trainer.watched().text(),
                                                      trainer.watched().measure.text(*state.best), state.best_step)
                                        : std::string();
    std::cerr << fmt::format("{}: step {}, {:.0f} s; {}{}", train::stop_reason_text(reason), state.step,
                             state.elapsed_seconds, best, run.path().string())
              << std::endl;
  }
  if (reason != train::StopReason::kSignal) return 0;
  spdlog::warn("interrupted by {}; continue with: fovea train --resume {}",
               stop_signal() == SIGINT ? "SIGINT" : "SIGTERM", run.path().string());
  return 128 + stop_signal();
}

int train_new(const TrainFlags& flags, const tasks::Registry& registry) {
  if (!flags.checkpoint.empty()) fail_usage("--checkpoint needs --resume");
  if (flags.has_run_dir && flags.run_dir.empty()) fail_usage("--run-dir: expected a directory, got an empty name");
  Arguments arguments = split_arguments(flags.positionals);
  const std::filesystem::path file =
      arguments.only("a configuration file, as in: fovea train configs/transformer_tiny.yaml");
  check_config(file);
  if (!flags.init_from.empty()) {
    check_run(flags.init_from);
    arguments.overrides.push_back("train.init_from=" + flags.init_from);
  }
  const train::Assembly assembly(train::load_experiment(registry, file, arguments.overrides), /*fresh=*/true);
  if (!flags.quiet || flags.dry_run) print_start(assembly);
  if (assembly.data->size(data::Part::kTrain) == 0) fail_usage("there is nothing to train on");
  const train::Judge judge = registry.judge_of(assembly.data->spec());
  train::resolve_watched(assembly.config, *assembly.module, *assembly.data, judge);
  print_warnings(assembly);
  if (flags.dry_run) {
    std::cerr << "dry run: nothing is trained or written" << std::endl;
    return 0;
  }
  const std::filesystem::path dir =
      flags.run_dir.empty() ? std::filesystem::path("runs") / file.stem() : std::filesystem::path(flags.run_dir);
  const auto run = train::RunDirectory::create(
      dir, config::dump(assembly.config),
      flags.overwrite ? train::RunDirectory::Existing::kOverwrite : train::RunDirectory::Existing::kRefuse);
  catch_stop_signals();
  Progress progress({.quiet = flags.quiet});
  train::Trainer trainer(assembly.config, *assembly.module, *assembly.data, run, assembly.device, progress, judge);
  const train::StopReason reason = trainer.fit();
  return finish(trainer, run, reason, flags.quiet);
}

int resume(const TrainFlags& flags, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(flags.positionals);
  arguments.check_words();
  if (!arguments.words.empty()) {
    fail_usage("--resume takes no configuration, it continues with the run's own; got '{}'", arguments.words[0]);
  }
  if (!flags.run_dir.empty() || flags.overwrite || !flags.init_from.empty()) {
    fail_usage("--resume takes none of --run-dir, --overwrite, --init-from");
  }
  check_run(flags.resume);
  const auto run = train::RunDirectory::open(flags.resume);
  const train::CheckpointStore store = run.checkpoints();
  std::filesystem::path checkpoint;
  if (!store.list().empty() || !flags.checkpoint.empty()) {
    checkpoint = store.open(flags.checkpoint.empty() ? "last" : flags.checkpoint);
  }
  train::ResumedConfig resumed = train::load_for_resume(registry, run, checkpoint, arguments.overrides);
  if (!flags.quiet) {
    for (const auto& change : resumed.changes) std::cerr << "changed: " << change << "\n";
  }
  const train::Assembly assembly(std::move(resumed.config), /*fresh=*/checkpoint.empty());
  if (!checkpoint.empty()) {
    const auto& config = assembly.config;
    assembly.data->assets()->check_same(*config.data_entry().load_assets(*config.data.section, checkpoint));
  }
  if (!flags.quiet || flags.dry_run) {
    print_start(assembly);
    std::cerr << (checkpoint.empty() ? std::string("no checkpoint yet: starting from the beginning")
                                     : "continuing from " + checkpoint.string())
              << std::endl;
  }
  print_warnings(assembly);
  Progress progress({.quiet = flags.quiet});
  train::Trainer trainer(assembly.config, *assembly.module, *assembly.data, run, assembly.device, progress,
                         registry.judge_of(assembly.data->spec()));
  if (!checkpoint.empty()) trainer.resume(checkpoint);
  if (flags.dry_run) return 0;
  run.replace_config(config::dump(assembly.config));
  catch_stop_signals();
  const int64_t steps_before = trainer.state().step;
  const train::StopReason reason = trainer.fit();
  if (trainer.state().step == steps_before && reason != train::StopReason::kSignal && !flags.quiet) {
    std::cerr << "nothing was left to do; a greater train.max_epochs goes on\n";
  }
  return finish(trainer, run, reason, flags.quiet);
}

}  // namespace

void add_train(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = app.add_subcommand("train", "Train a model from a YAML file");
  add_arguments(*command, flags->positionals, "CONFIG.yaml [KEY=VALUE ...]",
                "CONFIG.yaml\tThe file that describes the experiment\n"
                "KEY=VALUE\tSettings that replace those in the file: train.max_epochs=5, runtime.threads=1; `fovea "
                "config explain` lists them");
  auto* run_dir =
      command->add_option("--run-dir", flags->run_dir, "Where the run is kept (default runs/NAME for NAME.yaml)")
          ->type_name("DIR");
  command
      ->add_option("--init-from", flags->init_from,
                   "Start from the weights of this run (train.init_from; see train.init_only, train.freeze)")
      ->type_name("RUN");
  command->add_option("--resume", flags->resume, "Continue this run from its last checkpoint")->type_name("RUN");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "With --resume: continue from best, last or step-N (default last)")
      ->type_name("NAME");
  command->add_flag("--overwrite", flags->overwrite, "Replace a run that exists");
  command->add_flag("--dry-run", flags->dry_run, "Read the data, build the model, print the table, and stop");
  add_quiet(*command, flags->quiet);
  command->footer(
      "Examples:\n"
      "  fovea train configs/transformer_tiny.yaml train.max_epochs=5 --run-dir runs/short\n"
      "  fovea train --resume runs/short train.max_epochs=10\n"
      "  fovea train my.yaml --init-from runs/short 'train.freeze=[encoder]'\n"
      "Interrupted by SIGINT (Ctrl-C) or SIGTERM, it saves, validates and exits with 130 or 143; a second signal ends "
      "it at once.");
  commands.emplace_back(command, [flags, run_dir, &registry] {
    flags->has_run_dir = run_dir->count() > 0;
    return flags->resume.empty() ? train_new(*flags, registry) : resume(*flags, registry);
  });
}

}  // namespace fovea::cli
