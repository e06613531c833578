#include "fovea/tasks/predictor.h"

#include <nlohmann/json.hpp>

namespace fovea::tasks {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string error_json(const std::string& key, const std::string& input, const std::string& error) {
  const nlohmann::ordered_json object = {{key, input}, {"error", error}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace fovea::tasks
