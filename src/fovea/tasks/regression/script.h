#pragma once

#include "fovea/export/script_recipe.h"
#include "fovea/tasks/regression/dataset.h"
#include "fovea/tasks/regression/spec.h"

namespace fovea::regression {

/// How a regressor becomes TorchScript: forward(x), x float (batch, num_features) in the data's own units, returns
/// (batch, num_targets) in them. Attributes: num_features, num_targets. Compared are batches of 1, 3 and 37.
exports::ScriptRecipe script_recipe(const Regressor& model, const TableAssets& assets);

}  // namespace fovea::regression
