#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/log_file.h"
#include "fovea/core/progress.h"
#include "fovea/core/shell.h"
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
  bool overwrite = false, dry_run = false, quiet = false, verbose = false, plot = false;
};

// Warnings, for train.log.
class LogSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LogSink(std::shared_ptr<LogFile> log) : log_(std::move(log)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const auto level = spdlog::level::to_string_view(message.level);
    log_->write(fmt::format("{}: {}\n", std::string_view(level.data(), level.size()),
                            std::string_view(message.payload.data(), message.payload.size())));
  }
  void flush_() override {}

 private:
  std::shared_ptr<LogFile> log_;
};

// Says what a training has to say: on stderr unless it is to be quiet, and in train.log.
class Narration {
 public:
  Narration(const train::RunDirectory& run, bool quiet)
      : quiet_(quiet), log_(std::make_shared<LogFile>(run.log_path())), sink_(std::make_shared<LogSink>(log_)) {
    spdlog::default_logger()->sinks().push_back(sink_);
  }
  ~Narration() { std::erase(spdlog::default_logger()->sinks(), sink_); }
  Narration(const Narration&) = delete;
  Narration& operator=(const Narration&) = delete;

  /// On stderr it comes from whoever catches it.
  void log_error(const std::string& text) const { log_->write("error: " + text + "\n"); }
  void say(const std::string& text) const {
    log_->write(text);
    if (!quiet_) std::cerr << for_errors(text) << std::flush;
  }
  ProgressOptions progress(bool plot) const { return {.quiet = quiet_, .plot = plot, .log = log_}; }

 private:
  bool quiet_;
  std::shared_ptr<LogFile> log_;
  spdlog::sink_ptr sink_;
};

// What is trained, on what, with which settings: those that differ from their defaults, or all.
std::string start_text(const train::Assembly& assembly, bool all_settings) {
  Table table({.width = terminal_width(STDERR_FILENO, 0)});
  const auto all = config::settings(assembly.config);
  const auto shown = all_settings ? all : assembly.config.chosen_settings();
  for (const auto& [key, value] : shown) table.add_row({key, value});
  for (const auto& [name, text] : assembly.data->describe()) table.add_row({name, text});
  table.add_row({"parameters", std::to_string(train::count_parameters(assembly.module->network()))});
  for (const auto& [name, text] : assembly.notes) table.add_row({name, text});
  table.add_row({"device", fmt::format("{}, {}", assembly.device.str(), counted(train::num_threads(), "thread"))});
  std::string text = table.str();
  if (shown.size() < all.size()) {
    text += fmt::format("({} more settings have their defaults: --verbose shows)\n", all.size() - shown.size());
  }
  return text + "\n";
}

void print_warnings(const train::Assembly& assembly) {
  for (const auto& warning : assembly.warnings) spdlog::warn("{}", warning);
}

// The settings that would have to be greater to go on, and how.
std::string way_on(const train::Trainer& trainer, const train::RunDirectory& run) {
  const auto limits = trainer.limits_reached();
  if (limits.empty()) return "";
  std::string command = "fovea train --resume " + shell_quoted(run.path().string());
  for (const auto& [key, greater] : limits) command += fmt::format(" {}={}", key, greater);
  return fmt::format("to train longer: {}\n", command);
}

// Trains to the end and says what came of it; returns the exit status.
int train_on(train::Trainer& trainer, const train::RunDirectory& run, const Narration& narration) {
  catch_stop_signals();
  const int64_t steps_before = trainer.state().step;
  train::StopReason reason{};
  try {
    reason = trainer.fit();
  } catch (const std::exception& e) {
    narration.log_error(e.what());
    throw;
  }
  const train::TrainState& state = trainer.state();
  const std::string best = state.best ? fmt::format("best {} {} at step {}; ", trainer.watched().text(),
                                                    trainer.watched().measure.text(*state.best), state.best_step)
                                      : std::string();
  const bool is_stopped = reason == train::StopReason::kSignal;
  if (state.step == steps_before && !is_stopped) narration.say("nothing was left to do\n");
  narration.say(fmt::format("{}: step {}, {:.0f} s; {}{}\n", train::stop_reason_text(reason), state.step,
                            state.elapsed_seconds, best, run.path().string()));
  narration.say(way_on(trainer, run));
  if (!is_stopped) return 0;
  spdlog::warn("interrupted by {}; continue with: fovea train --resume {}",
               stop_signal() == SIGINT ? "SIGINT" : "SIGTERM", shell_quoted(run.path().string()));
  return 128 + stop_signal();
}

// A run that is to be replaced must not be one that the new one learns from.
void check_not_a_source(const train::ExperimentConfig& config, const std::filesystem::path& dir) {
  std::vector<std::pair<std::string, std::filesystem::path>> sources;
  if (config.train.init_from) sources.emplace_back("train.init_from", *config.train.init_from);
  for (const auto& setting : config::path_settings(*config.model.section)) {
    for (const auto& path : setting.paths) sources.emplace_back("model." + setting.key, path);
  }
  for (const auto& [key, path] : sources) {
    std::error_code missing;
    if (!std::filesystem::equivalent(path, dir, missing)) continue;
    fail_usage("{}: there is a run already, and the new one would learn from it ({}); choose another --run-dir",
               dir.string(), key);
  }
}

int train_new(const TrainFlags& flags, const tasks::Registry& registry) {
  if (!flags.checkpoint.empty()) fail_usage("--checkpoint needs --resume");
  if (flags.has_run_dir && flags.run_dir.empty()) fail_usage("--run-dir: expected a directory, got an empty name");
  Arguments arguments = split_arguments(flags.positionals);
  const std::filesystem::path file =
      arguments.only("a configuration file, as in: fovea train configs/transformer_tiny.yaml", registry);
  check_config(file);
  if (!flags.init_from.empty()) {
    check_run(flags.init_from);
    arguments.overrides.push_back("train.init_from=" + flags.init_from);
  }
  // What costs nothing is checked before the data are read.
  const std::filesystem::path dir = run_directory(flags.run_dir, file);
  train::ExperimentConfig config = train::load_experiment(registry, file, arguments.overrides);
  registry.check(config);
  using Existing = train::RunDirectory::Existing;
  std::optional<train::RunDirectory> run;
  if (!flags.dry_run) {
    check_not_a_source(config, dir);
    run = train::RunDirectory::claim(dir, flags.overwrite ? Existing::kOverwrite : Existing::kRefuse);
  }
  const train::Assembly assembly(std::move(config), /*fresh=*/true);
  if (assembly.data->size(data::Part::kTrain) == 0) fail_usage("there is nothing to train on");
  const train::Judge judge = registry.judge_of(assembly.data->spec());
  train::resolve_watched(assembly.config, *assembly.module, *assembly.data, judge);
  const std::string start = start_text(assembly, flags.verbose);
  if (flags.dry_run) {
    std::cerr << for_errors(start);
    print_warnings(assembly);
    std::cerr << "dry run: nothing is trained or written" << std::endl;
    return 0;
  }
  run->begin(config::dump(assembly.config));
  const Narration narration(*run, flags.quiet);
  narration.say(start);
  print_warnings(assembly);
  Progress progress(narration.progress(flags.plot));
  train::Trainer trainer(assembly.config, *assembly.module, *assembly.data, *run, assembly.device, progress, judge);
  return train_on(trainer, *run, narration);
}

int resume(const TrainFlags& flags, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(flags.positionals);
  arguments.check_words(registry);
  if (!arguments.words.empty()) {
    fail_usage("--resume takes no configuration, it continues with the run's own; got '{}'", arguments.words[0]);
  }
  if (!flags.run_dir.empty() || flags.overwrite || !flags.init_from.empty()) {
    fail_usage("--resume takes none of --run-dir, --overwrite, --init-from");
  }
  check_run(flags.resume);
  const auto run =
      flags.dry_run ? train::RunDirectory::open(flags.resume) : train::RunDirectory::open_to_write(flags.resume);
  const train::CheckpointStore store = run.checkpoints();
  std::filesystem::path checkpoint;
  if (!store.list().empty() || !flags.checkpoint.empty()) {
    checkpoint = store.open(flags.checkpoint.empty() ? "last" : flags.checkpoint);
  }
  train::ResumedConfig resumed = train::load_for_resume(registry, run, checkpoint, arguments.overrides);
  const train::Assembly assembly(std::move(resumed.config), /*fresh=*/checkpoint.empty());
  if (!checkpoint.empty()) {
    const auto& config = assembly.config;
    assembly.data->assets()->check_same(*config.data_entry().load_assets(*config.data.section, checkpoint));
  }
  const train::Judge judge = registry.judge_of(assembly.data->spec());
  std::string start;
  for (const auto& change : resumed.changes) start += fmt::format("changed: {}\n", change);
  start += start_text(assembly, flags.verbose);
  start += checkpoint.empty() ? "no checkpoint yet: starting from the beginning\n"
                              : fmt::format("continuing from {}\n", checkpoint.string());
  if (flags.dry_run) {
    Progress progress({.quiet = true});
    train::Trainer trainer(assembly.config, *assembly.module, *assembly.data, run, assembly.device, progress, judge);
    if (!checkpoint.empty()) trainer.resume(checkpoint);
    std::cerr << for_errors(start);
    print_warnings(assembly);
    return 0;
  }
  const Narration narration(run, flags.quiet);
  Progress progress(narration.progress(flags.plot));
  train::Trainer trainer(assembly.config, *assembly.module, *assembly.data, run, assembly.device, progress, judge);
  if (!checkpoint.empty()) trainer.resume(checkpoint);
  narration.say(start);
  print_warnings(assembly);
  run.replace_config(config::dump(assembly.config));
  return train_on(trainer, run, narration);
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
          ->type_name("DIR")
          ->transform(as_path());
  command
      ->add_option("--init-from", flags->init_from,
                   "Start from the weights of this run (train.init_from; see train.init_only, train.freeze)")
      ->type_name("RUN");
  command->add_option("--resume", flags->resume, "Continue this run from its last checkpoint")
      ->type_name("RUN")
      ->transform(as_path());
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "With --resume: continue from best, last or step-N (default last)")
      ->type_name("NAME");
  command->add_flag("--overwrite", flags->overwrite, "Replace a run that exists");
  command->add_flag("--dry-run", flags->dry_run, "Read the data, build the model, print the table, and stop");
  command->add_flag("--quiet", flags->quiet, "Print warnings and errors only; RUN/train.log has the rest");
  command->add_flag("--verbose", flags->verbose, "Show every setting, not only those that differ from their defaults");
  command->add_flag("--plot", flags->plot,
                    "Keep the curves of the loss above the progress bar. Only on a terminal, of 18 lines or more");
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
