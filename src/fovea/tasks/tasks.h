#pragma once

#include "fovea/tasks/classification/task.h"
#include "fovea/tasks/regression/task.h"
#include "fovea/tasks/translation/task.h"

namespace fovea::tasks {

/// Every task that fovea knows. A new one adds its line here.
inline std::vector<Task> all_tasks() {
  return {translation::task(), classification::task(), regression::task()};
}

}  // namespace fovea::tasks
