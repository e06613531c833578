// The direction of includes (CONTRIBUTING.md), kept by a test: a layer includes only what lies below it.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/catch.h"

namespace fs = std::filesystem;

namespace {

// layer -> the layers it may include besides itself
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"core", {}},
    {"config", {"core"}},
    {"ops", {}},
    {"nn", {"ops", "core"}},
    {"data", {"nn", "ops", "config", "core"}},
    {"decode", {"data", "nn", "core"}},
    {"train", {"decode", "data", "nn", "config", "core"}},
    {"export", {"train", "decode", "data", "nn", "config", "core"}},
    {"plot", {"train", "decode", "data", "nn", "config", "core"}},
    {"models", {"export", "plot", "train", "decode", "data", "nn", "config", "core"}},
    {"cli", {"models", "export", "plot", "train", "decode", "data", "nn", "config", "core"}},
};

std::string layer_of(const fs::path& relative) {
  const std::string path = relative.generic_string();
  if (path.starts_with("models/")) return "models";
  if (path.starts_with("src/cli/")) return "cli";
  const std::string rest = path.substr(std::string("src/fovea/").size());
  return rest.substr(0, rest.find('/'));
}

}  // namespace

TEST_CASE("includes point one way") {
  const fs::path root = FOVEA_SOURCE_DIR;
  const std::regex include("#include \"((?:fovea|models)/[^\"]+)\"");
  int checked = 0;
  for (const auto* top : {"src", "models"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      const fs::path relative = fs::relative(entry.path(), root);
      const std::string layer = layer_of(relative);
      INFO(relative);
      REQUIRE(kAllowed.contains(layer));
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        const std::string target = match[1];
        const std::string included = target.starts_with("models/") ? "models" : layer_of("src/" + target);
        INFO(line);
        CHECK((included == layer || kAllowed.at(layer).contains(included)));
        ++checked;
      }
    }
  }
  CHECK(checked > 100);
}
