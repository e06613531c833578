#include "fovea/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

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

int64_t terminal_height(int fd, int64_t otherwise) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : otherwise;
}

bool locale_is_utf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    locale = value;
    break;
  }
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

bool takes_colour(int fd) {
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  const bool is_dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(fd) == 1 && !is_dumb && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace fovea
