#pragma once

#include "fovea/tasks/task.h"

namespace fovea::regression {

/// Numbers out of numbers (d2l 3, 11.2).
const tasks::Task& task();

}  // namespace fovea::regression
