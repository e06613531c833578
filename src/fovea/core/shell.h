#pragma once

#include <string>

namespace fovea {

/// Text as one argument of a POSIX shell, in quotes where it needs them.
std::string shell_quoted(const std::string& text);

}  // namespace fovea
