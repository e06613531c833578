#pragma once

#include <cstdint>

namespace fovea {

/// The columns that text for a file descriptor may take: COLUMNS where it is a number above 0, else the width of the
/// terminal behind `fd`, else `otherwise`.
int64_t terminal_width(int fd, int64_t otherwise);

}  // namespace fovea
