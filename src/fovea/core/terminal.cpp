#include "fovea/core/terminal.h"

#include <sys/ioctl.h>

#include <cstdlib>

#include "fovea/core/numbers.h"

namespace fovea {

int64_t terminal_width(int fd, int64_t otherwise) {
  if (const char* columns = std::getenv("COLUMNS")) {
    const auto width = parse_int(columns);
    if (width && *width > 0) return *width;
  }
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace fovea
