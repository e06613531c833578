#pragma once

#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/train/module.h"

namespace fovea::train {

/// The lists that names in a configuration are looked up in.
struct Entries {
  std::vector<ModelEntry> models;
  std::vector<data::DataEntry> datasets;
};

}  // namespace fovea::train
