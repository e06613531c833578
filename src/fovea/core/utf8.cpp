#include "fovea/core/utf8.h"

namespace fovea {

// The length of the UTF-8 character that starts at `at`, 0 if there is none.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  const auto continues = [&](size_t count) {
    for (size_t i = 1; i <= count; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF && continues(1)) return 2;
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool beyond = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);  // surrogates, > U+10FFFF
  if (overlong || beyond) return 0;
  if (first >= 0xE0 && first <= 0xEF && continues(2)) return 3;
  if (first >= 0xF0 && first <= 0xF4 && continues(3)) return 4;
  return 0;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace fovea
