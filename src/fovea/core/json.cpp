#include "fovea/core/json.h"

#include <nlohmann/json.hpp>

#include <set>
#include <vector>

#include "fovea/core/error.h"

namespace fovea {

nlohmann::json parse_json(std::string_view text, const std::string& what) {
  using Event = nlohmann::json::parse_event_t;
  constexpr size_t kMaxDepth = 32;
  std::vector<std::set<std::string>> open;  // the keys seen, for each object or array being read
  const auto on_event = [&](int /*depth*/, Event event, nlohmann::json& value) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        open.emplace_back();
        if (open.size() > kMaxDepth) fail_usage("{}: expected JSON, found it nested deeper than {}", what, kMaxDepth);
        break;
      case Event::object_end:
      case Event::array_end:
        open.pop_back();
        break;
      case Event::key:
        if (!open.back().insert(value.get<std::string>()).second) {
          fail_usage("{}: the key {} stands twice in one object", what, value.dump());
        }
        break;
      case Event::value:
        break;
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), on_event);
  } catch (const nlohmann::json::exception& error) {
    fail_usage("{}: expected JSON: {}", what, error.what());
  }
}

}  // namespace fovea
