// Pickles and name maps from anywhere: a result or an Error, and no time or memory out of proportion.
#include <cstdint>
#include <string>

#include "fovea/core/error.h"
#include "fovea/export/pickle.h"
#include "fovea/train/name_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto root = fovea::exports::read_pickle(bytes, "fuzz");
    if (const auto* dict = root->as<fovea::exports::PickleDict>()) dict->find("state_dict");
  } catch (const fovea::Error&) {
  }
  try {
    const auto map = fovea::train::NameMap::parse(bytes.substr(0, 4096), "fuzz");
    map("encoder.blks.block0.attention.W_q.weight");
  } catch (const fovea::Error&) {
  }
  return 0;
}
