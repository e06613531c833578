#pragma once

#include "fovea/tasks/task.h"

namespace fovea::regression {

/// What is in rows of numbers: the parts, each column's range and distribution, columns that never change, equal rows,
/// some examples. Rows that come from no file are described in their own words.
tasks::Report inspect(const tasks::InspectRequest& request);

}  // namespace fovea::regression
