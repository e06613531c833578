#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/export/script_recipe.h"
#include "fovea/train/module.h"

namespace fovea::exports {

/// A model and what has to go with it to be used elsewhere.
struct Exportable {
  train::Module& module;  // on the CPU
  const data::DataAssets& assets;
  std::string name;         // of the model, in configurations
  std::string config_yaml;  // the resolved experiment
  std::string checkpoint;   // where the weights come from, e.g. "step-40"
};

/// What there is to tell about an export, as (name, text).
using ExportSummary = std::vector<std::pair<std::string, std::string>>;

/// Writes a TorchScript file that torch alone can load, in Python and in C++, made of ATen's own ops, for any batch
/// size and any lengths. Its methods and attributes are the recipe's (tasks/x/script.h). Extra files of the archive:
/// config.yaml; model.json (what it is, of which versions, and the recipe's facts); the recipe's own.
///
/// The network is in evaluation mode meanwhile and then as it was. Before the file gets its name it is loaded again
/// and compared with the live model, as the recipe says; if anything differs, there is no file and an Error that says
/// what. `say` hears what is being done.
ExportSummary export_torchscript(const Exportable& model, const ScriptRecipe& recipe, const std::filesystem::path& file,
                                 const std::function<void(const std::string&)>& say);

}  // namespace fovea::exports
