#pragma once

#include <filesystem>
#include <string>

namespace fovea {

/// A path as a user wrote it, where no shell has expanded it (`--run-dir=~/x`, a value in YAML): "~" and "~/x" become
/// the home directory. Throws a usage Error for what is no path and would become a folder of a strange name: a web
/// address, "~name".
std::string user_path(const std::string& text);

/// Whether the path can be read again later: false for pipes, terminals and what only this process has, such as
/// /dev/stdin and the /dev/fd/63 of `<(zcat x)`, whatever is behind it. What is not there, or a directory, counts as
/// true.
bool is_lasting(const std::filesystem::path& path);

}  // namespace fovea
