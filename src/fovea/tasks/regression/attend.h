#pragma once

#include "fovea/tasks/task.h"

namespace fovea::regression {

/// Reports which of the remembered rows a prediction is made of. Rows and columns are in the order of their first
/// feature. Throws a usage Error for a model that remembers none.
tasks::Report attend(const train::LoadedRun& run, const tasks::AttendRequest& request);

}  // namespace fovea::regression
