#pragma once

#include <string_view>

#include "fovea/config/document.h"

namespace fovea::config {

/// What parse_yaml and apply_override share: reads `text`; origins and errors name the place as
/// `base` does, with the line added for a file.
Node parse_yaml_at(std::string_view text, const Origin& base);

}  // namespace fovea::config
