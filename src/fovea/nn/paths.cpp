#include "fovea/nn/paths.h"

namespace fovea::nn {

void assign_paths(torch::nn::Module& root) {
  // Without the root itself, which is on the stack or still being made when it calls this.
  for (const auto& item : root.named_modules("", /*include_self=*/false)) {
    if (auto* placed = dynamic_cast<Placed*>(item.value().get())) placed->set_path(item.key());
  }
}

}  // namespace fovea::nn
