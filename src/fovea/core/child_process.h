#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea {

/// What became of a program that was run.
struct ChildResult {
  int status = 0;           // its exit status; 128 + the signal that ended it
  std::string output = {};  // what it wrote on its standard output
  int64_t peak_memory = 0;  // bytes of memory that it had at most
};

/// Runs a program to its end. It has this one's standard error and no input. A stop signal (core/signals.h) is passed
/// on to it, also one that came before, and its end is waited for. It is asked to stop when this process is killed.
/// Throws Error where it cannot be started.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments);

/// The program that is running: a path that stays the same file when another one takes its name.
std::filesystem::path this_program();

}  // namespace fovea
