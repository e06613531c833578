#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/train/entries.h"
#include "fovea/train/module.h"

namespace fovea::train {

/// Where a model's first weights come from, for fine-tuning.
struct InitOptions {
  std::filesystem::path run;                 // its best checkpoint, else its last one, is taken
  std::vector<std::string> only;             // prefixes of what is taken over; empty: everything
  std::optional<std::filesystem::path> map;  // a NameMap from the run's names to the model's
};

/// Copies the weights of another run into the module. Rows that have names (Module::labelled_axes: the words of a
/// vocabulary, classes) are taken over by name; rows of new names stay as they were initialised. Returns lines for the
/// start-up table, as (name, text): what was taken, and each parameter that is new in part.
/// Throws Error listing each weight that is missing in the run or has another shape there. The module is unchanged
/// then.
std::vector<std::pair<std::string, std::string>> init_from(Module& module, const data::DataAssets& assets,
                                                           const Entries& entries, const InitOptions& options);

}  // namespace fovea::train
