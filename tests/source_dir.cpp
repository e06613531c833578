#include "tests/source_dir.h"

std::filesystem::path source_dir() {
  return FOVEA_SOURCE_DIR;
}
