#pragma once

#include "fovea/tasks/task.h"

namespace fovea::classification {

/// What is in labelled images: classes and parts, sizes, files that cannot be read, equal images, some examples. Image
/// files are decoded as they are, on several threads; those that are damaged are listed, not refused.
tasks::Report inspect_images(const tasks::InspectRequest& request);

}  // namespace fovea::classification
