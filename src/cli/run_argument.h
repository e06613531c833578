#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "command.h"

namespace fovea::cli {

/// The run directory that a command's arguments name. A usage Error where there is none or more than one, and for what
/// evidently is something else (a checkpoint, an export, a configuration), which names the command that takes it.
/// `example`: the command with arguments, for the error.
std::string only_run(const Arguments& arguments, const std::string& example, const tasks::Registry& registry);
/// The run directories that words name, one or more, checked in the same way.
std::vector<std::filesystem::path> several_runs(const std::vector<std::string>& words, const std::string& example);
/// Refuses what evidently is no run.
void check_run(const std::filesystem::path& path);
/// Refuses what evidently is no configuration: a run, data.
void check_config(const std::filesystem::path& path);
/// Refuses what evidently is no file of data to train on: nothing, a directory, a pipe, a configuration, weights.
void check_data(const std::filesystem::path& path);

}  // namespace fovea::cli
