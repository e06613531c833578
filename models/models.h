#pragma once

#include "fovea/data/datasets.h"
#include "fovea/train/experiment.h"
#include "models/transformer.h"
#include "models/vit.h"

namespace fovea::models {

/// Every model a config can name. A new one adds its line here.
inline std::vector<train::ModelEntry> all_models() {
  return {transformer_entry(), vit_entry()};
}

inline train::Registry registry() {
  return {.models = all_models(), .datasets = data::all_datasets()};
}

}  // namespace fovea::models
