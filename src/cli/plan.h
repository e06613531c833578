#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/tasks/task.h"

namespace fovea::cli {

/// A task, what it proposes for some files, and the model that goes with it.
struct Plan {
  const tasks::Task* task;
  tasks::Proposal proposal;
  std::string model;
};

/// What the first task that knows what to do with the files proposes. Throws a usage Error with the reasons of all
/// tasks where none does.
Plan make_plan(const tasks::ProposalRequest& request, const tasks::Registry& registry);

/// "a and b"
std::string joined(const std::vector<std::filesystem::path>& files);

/// A file of data as a user named it: its home directory written out, "photos/" without the slash. Throws a usage Error
/// for what is evidently no data: see check_data().
std::filesystem::path data_argument(const std::string& text);

}  // namespace fovea::cli
