#pragma once

#include "fovea/tasks/task.h"

namespace fovea::classification {

/// Examples into classes: images (d2l 4, 11.8).
const tasks::Task& task();

}  // namespace fovea::classification
