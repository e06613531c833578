#pragma once

#include "fovea/data/datasets.h"
#include "fovea/train/experiment.h"
#include "models/transformer.h"
#include "models/vit.h"

namespace fovea::models {

/// Every model a config can name. A new one adds its line here.
inline std::vector<ModelEntry> all_models() {
  return {transformer_entry(), vit_entry()};
}

inline Registry registry() {
  return {.models = all_models(), .datasets = all_datasets()};
}

}  // namespace fovea::models
