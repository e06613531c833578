#pragma once

#include <string>

namespace fovea {

/// A path as a user wrote it, where no shell has expanded it (`--run-dir=~/x`, a value in YAML): "~" and "~/x" become
/// the home directory. Throws a usage Error for what is no path and would become a folder of a strange name: a web
/// address, "~name".
std::string user_path(const std::string& text);

}  // namespace fovea
