#pragma once

#include <functional>
#include <map>
#include <string>

#include "fovea/export/comparison.h"

namespace torch::jit {
struct Module;
}

namespace fovea::exports {

class ScriptModule;

/// How models of a task become TorchScript. Made by the task for one model, which must outlive it and is in evaluation
/// mode while any of this is called.
struct ScriptRecipe {
  std::string kind;  // what it is, in model.json: "translation"
  /// Adds methods and attributes to the network's module.
  std::function<void(ScriptModule&)> build;
  /// Holds the loaded file against the live model at several sizes; throws Error where they differ. `say` hears what is
  /// being done.
  std::function<Comparison(const torch::jit::Module&, const std::function<void(const std::string&)>& say)> compare;
  std::string facts_json = "{}";                  // an object; its keys go into model.json
  std::map<std::string, std::string> files = {};  // further files of the archive
};

}  // namespace fovea::exports
