#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/export/state_dict.h"
#include "fovea/train/name_map.h"

namespace fovea::exports {

/// Copies foreign weights into the network, by name. Tied weights may come under any or all of their names, if they are
/// equal then; computed buffers (the sinusoids) may be there and are not used. float64, float16 and bfloat16 become
/// what the network has. Returns notices: what was converted, left out or not used.
/// Throws Error listing every weight that is missing (with the nearest name that was not used), left over or of another
/// shape, every pair of names that became one, and non-finite ones. The network is unchanged then.
std::vector<std::string> import_weights(torch::nn::Module& network, const ForeignWeights& weights,
                                        const train::NameMap& map, const std::string& file);

}  // namespace fovea::exports
