// Fuzz target: whatever the bytes, reading a configuration ends well or in a fovea::Error, and what
// was read is dumped to text that reads back to the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/config/dump.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "tests/config/config_sections.h"

namespace {

using namespace fovea::config;

template <typename T>
void read_and_dump(const Node& root) {
  T section;
  try {
    read(section, root);
  } catch (const fovea::Error&) {
    return;
  }
  const std::string once = dump(section);
  T again;
  read(again, parse_yaml(once, "/dump.yaml"));
  if (dump(again) != once) std::abort();
}

}  // namespace

// The first line is an argument of the command line, the rest a file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  const std::string argument(text.substr(0, line));
  try {
    Node root = parse_yaml(line == std::string_view::npos ? text : text.substr(line + 1), "/fuzz.yaml");
    read_and_dump<sections::Everything>(root);
    read_and_dump<sections::Experiment>(root);
    apply_override(root, argument);
    read_and_dump<sections::Everything>(root);
    read_and_dump<sections::Experiment>(root);
  } catch (const fovea::Error&) {
  }
  return 0;
}
