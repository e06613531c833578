#pragma once

#include "fovea/tasks/task.h"

namespace fovea::translation {

/// Sentences into sentences (d2l 10.5, 11.7).
const tasks::Task& task();

}  // namespace fovea::translation
