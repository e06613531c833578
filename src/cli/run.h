#pragma once

#include "fovea/tasks/task.h"

namespace fovea::cli {

/// The program: runs the command that the arguments name, with the models and tasks of the registry, and returns the
/// exit status. Results go to the standard output, everything about the work to the standard error. A program with
/// models or tasks of its own is a `main` that calls this.
int run(const tasks::Registry& registry, int argc, const char* const* argv);

}  // namespace fovea::cli
