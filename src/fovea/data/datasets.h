#pragma once

#include "fovea/data/translation.h"

namespace fovea {

/// Every kind of data a config can name. A new one adds its line here.
inline std::vector<DataEntry> all_datasets() {
  return {translation_entry()};
}

}  // namespace fovea
