#pragma once

#include <string_view>

#include "fovea/config/document.h"

namespace fovea::config {

/// Refuses text that a configuration may not hold: bytes that are not UTF-8, control characters, a
/// lone carriage return, tabs as indentation.
void check_characters(std::string_view text, const Origin& base);

}  // namespace fovea::config
