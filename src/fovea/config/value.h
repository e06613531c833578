#pragma once

#include <string>

#include "fovea/config/fields.h"

namespace fovea::config {

/// "a whole number from 1 to 65536", "one of plain, flash", "a list of 2 numbers, each above 0",
/// "... or null".
std::string expected_text(const Setting& setting);

/// The value as YAML that reads back to the same: "0.1", "[0.9, 0.98]", "null", text in quotes
/// where it needs them.
std::string value_text(const Value& value);

/// Text as a YAML scalar, in quotes unless every YAML reader takes it for text without them.
std::string yaml_text(const std::string& text);

/// Stores what `entry` says; a usage error if it is not what the setting expects. `path` is the
/// full key path.
void assign(const Setting& setting, const Node::Entry& entry, const std::string& path);

}  // namespace fovea::config
