#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "fovea/tasks/translation/translator.h"

namespace fovea::cli {

/// Adds a subcommand to the program. Its callback does the work and returns the exit status.
using Action = std::function<int()>;
using Commands = std::vector<std::pair<CLI::App*, Action>>;

void add_train(CLI::App& app, Commands& commands);
void add_translate(CLI::App& app, Commands& commands);
void add_classify(CLI::App& app, Commands& commands);
void add_evaluate(CLI::App& app, Commands& commands);
void add_export(CLI::App& app, Commands& commands);
void add_import(CLI::App& app, Commands& commands);
void add_score(CLI::App& app, Commands& commands);
void add_config(CLI::App& app, Commands& commands);
void add_info(CLI::App& app, Commands& commands);

/// Lets a command take any number of positional arguments, as they are. CLI11 would take "[a, b]" apart, which may well
/// be a sentence.
CLI::Option* add_arguments(CLI::App& command, std::vector<std::string>& arguments, const std::string& help);

/// Positional arguments as they come: "key=value" settings may stand anywhere among the others. CLI11 hands a stray
/// key=value to the first free positional, so each command takes one list and calls this.
struct Arguments {
  std::vector<std::string> words;
  std::vector<std::string> overrides;

  /// The only word. A usage Error naming `what` if there is none or more than one.
  std::string only(const std::string& what) const;
};
Arguments split_arguments(const std::vector<std::string>& positionals);

/// --beam, --length-penalty, --max-len and --batch-size, the same wherever something is translated. Returns them.
std::vector<const CLI::Option*> add_search_options(CLI::App& command, translation::TranslatorOptions& options,
                                                   const std::string& note = {});

}  // namespace fovea::cli
