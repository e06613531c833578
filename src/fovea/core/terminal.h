#pragma once

#include <cstdint>

namespace fovea {

/// The columns that text for a file descriptor may take: COLUMNS where it is a number above 0, else the width of the
/// terminal behind `fd`, else `otherwise`.
int64_t terminal_width(int fd, int64_t otherwise);

/// The lines of the terminal behind `fd`, else `otherwise`.
int64_t terminal_height(int fd, int64_t otherwise);

/// Whether the locale (LC_ALL, else LC_CTYPE, else LANG) says that text is UTF-8.
bool locale_is_utf8();

/// Whether to write colours to a file descriptor: it is a terminal, neither TERM=dumb nor NO_COLOR forbids them.
bool takes_colour(int fd);

}  // namespace fovea
