#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/tasks/task.h"

namespace fovea::cli {

/// Each add_x adds a command to the program. Its action does the work and returns the exit status.
using Action = std::function<int()>;
using Commands = std::vector<std::pair<CLI::App*, Action>>;

void add_train(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_predict(CLI::App& app, Commands& commands, const tasks::Registry& registry);  // and each task's verb
void add_evaluate(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_attend(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_picture(CLI::App& app, Commands& commands);
void add_report(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_export(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_import(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_config(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_plot(CLI::App& app, Commands& commands);
void add_runs(CLI::App& app, Commands& commands);
void add_compare(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_sweep(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_score(CLI::App& app, Commands& commands);
void add_info(CLI::App& app, Commands& commands);
void add_inspect(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_init(CLI::App& app, Commands& commands, const tasks::Registry& registry);
void add_help(CLI::App& app, Commands& commands);  // and `man`
void add_completion(CLI::App& app, Commands& commands, const tasks::Registry& registry);

/// Lets a command take any number of positional arguments, as they are. CLI11 would take "[a, b]" apart, which may well
/// be a sentence.
/// `usage` is how they are written: "CONFIG.yaml [KEY=VALUE ...]". `help` is a text, or for several kinds of arguments
/// a line "NAME\thelp" for each.
CLI::Option* add_arguments(CLI::App& command, std::vector<std::string>& arguments, const std::string& usage,
                           const std::string& help);
/// The flag --quiet.
void add_quiet(CLI::App& command, bool& quiet);
/// The option --checkpoint of the commands that use a trained model.
void add_checkpoint(CLI::App& command, std::string& checkpoint);

/// For options that are paths: see user_path(). Use it as option->transform(as_path()).
CLI::Validator as_path();

/// Positional arguments as they come: "key=value" settings may stand anywhere among the others. CLI11 hands a stray
/// key=value to the first free positional, so each command takes one list and calls this.
struct Arguments {
  std::vector<std::string> words;
  std::vector<std::string> overrides;

  /// The only word, a path (see user_path()). A usage Error naming `what` if there is none or more than one.
  std::string only(const std::string& what, const tasks::Registry& registry) const;
  /// A usage Error for a word that was meant as a setting: "modle.num_heads=4", "max_epochs=3".
  void check_words(const tasks::Registry& registry) const;
};

/// The one rule of what is a setting: an argument whose text before the first '=' is a key of an experiment or lies in
/// a section of one ("seed=1", "model.num_heads=4"), unless there is a file of that name.
Arguments split_arguments(const std::vector<std::string>& positionals);

/// Where a run goes: `told`, or, where that is empty, runs/<name of the file>. A usage Error for a pipe, which has no
/// name that says anything.
std::filesystem::path run_directory(const std::string& told, const std::filesystem::path& file);

/// How wide a table on the standard output may be; 0, no limit, where that is no terminal, so that each row of a table
/// stays one line for grep and awk.
int64_t output_width();

/// A message for stdout or stderr, its lines broken where the terminal there ends.
std::string for_output(const std::string& message);
std::string for_errors(const std::string& message);

}  // namespace fovea::cli
