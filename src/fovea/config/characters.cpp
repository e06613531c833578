#include "fovea/config/characters.h"

#include "fovea/core/utf8.h"

#include <fmt/format.h>

namespace fovea::config {

void check_characters(std::string_view text, const Origin& base) {
  int line = 1;
  bool indenting = true;
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const auto refuse = [&](const std::string& what) { fail_at(base.at_line(line), what); };
    const size_t length = utf8_length(text, i);
    if (length == 0) refuse(fmt::format("not UTF-8 text (byte 0x{:02X})", c));
    if (c == '\r' && text.substr(i, 2) != "\r\n") refuse("a carriage return (0x0D) without a line feed");
    if (c == '\t' && indenting && !base.is_argument()) refuse("a tab in the indentation; use spaces");
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      refuse(fmt::format("a control character (0x{:02X})", c));
    }
    if (c == '\n') {
      ++line;
      indenting = true;
    } else if (c != ' ' && c != '\t') {
      indenting = false;
    }
    i += length;
  }
}

}  // namespace fovea::config
