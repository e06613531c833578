#pragma once

#include "fovea/data/image_datasets.h"
#include "fovea/data/translation.h"

namespace fovea {

/// Every kind of data a config can name. A new one adds its line here.
inline std::vector<DataEntry> all_datasets() {
  return {translation_entry(), fashion_mnist_entry(), idx_images_entry()};
}

}  // namespace fovea
