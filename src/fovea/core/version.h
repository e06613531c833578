#pragma once

namespace fovea {

/// The version of the project, as in CMakeLists.txt (a test compares them).
inline constexpr const char* kVersion = "0.1.0";

}  // namespace fovea
