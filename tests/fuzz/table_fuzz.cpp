// Whatever bytes come, reading a table of numbers gives rows of one length and finite numbers or throws fovea::Error.
#include <cmath>
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/tasks/regression/table.h"

using namespace fovea;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    for (const double value : regression::parse_row(bytes)) require(std::isfinite(value));
  } catch (const Error&) {
  }
  try {
    const regression::NumberTable table = regression::parse_table(bytes, "t.tsv");
    require(!table.rows.empty() && table.blank_lines >= 0);
    require(table.names.empty() || static_cast<int64_t>(table.names.size()) == table.columns());
    for (const auto& row : table.rows) {
      require(static_cast<int64_t>(row.size()) == table.columns());
      for (const double value : row) require(std::isfinite(value));
    }
  } catch (const Error&) {
  }
  return 0;
}
