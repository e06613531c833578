#pragma once

#include <CLI/CLI.hpp>

#include "fovea/tasks/task.h"

namespace fovea::cli {

/// Throws a usage Error in our words for what CLI11 refused: what was wrong, and the option or setting that is nearest.
[[noreturn]] void fail_parse(const CLI::App& app, const CLI::ParseError& error, const tasks::Registry& registry);

/// Throws a usage Error for a command that there is not, with the nearest one. `words`: the arguments of the program.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// The setting of an experiment that a word was meant to be: "train.max_epochs" for "max-epochs"; empty if none is
/// near.
std::string setting_meant(const std::string& word, const tasks::Registry& registry);

/// The command that the words name, as far as they name one.
const CLI::App& command_of(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace fovea::cli
