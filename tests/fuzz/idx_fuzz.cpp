// Whatever bytes come, reading IDX gives an array that fits its bytes or throws fovea::Error.
#include <cstdlib>

#include "fovea/core/content.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/idx.h"

using namespace fovea;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (describe_content(bytes).empty()) std::abort();
  try {
    if (is_gzip(bytes)) bytes = gunzip(bytes, "a.gz", 1 << 20);
    const data::IdxArray array = data::parse_idx(std::move(bytes), "a");
    uint8_t all = 0;
    for (int64_t i = 0; i < array.size(); ++i) all |= array.data()[i];
    if (array.data() + array.size() != reinterpret_cast<const uint8_t*>(array.bytes.data()) + array.bytes.size()) {
      std::abort();
    }
    static_cast<void>(all);
  } catch (const Error&) {
  }
  return 0;
}
