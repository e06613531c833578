#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace fovea {

/// Parses JSON strictly: besides what JSON itself forbids, a key that stands twice in one object
/// and nesting deeper than 32 are refused (nlohmann-json keeps the last of two equal keys in
/// silence). `what` names the text in errors, e.g. a path: "runs/a/state.json: expected JSON, ...".
nlohmann::json parse_json(std::string_view text, const std::string& what);

}  // namespace fovea
