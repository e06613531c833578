#include "fovea/data/data_module.h"

namespace fovea::data {

const char* part_name(Part part) {
  switch (part) {
    case Part::kTrain:
      return "train";
    case Part::kValidation:
      return "validation";
    case Part::kTest:
      return "test";
  }
  return "?";
}

}  // namespace fovea::data
