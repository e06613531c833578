#include "fovea/core/display.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace fovea {
namespace {

struct Character {
  size_t size;    // bytes
  int64_t width;  // columns
  bool control;
};

Character character_at(std::string_view text, size_t at) {
  utf8proc_int32_t code = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  const utf8proc_ssize_t size = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (size <= 0) return {1, 1, false};
  const utf8proc_category_t category = utf8proc_category(code);
  const bool control =
      category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
  return {static_cast<size_t>(size), control ? 0 : utf8proc_charwidth(code), control};
}

}  // namespace

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    width += character.width;
    at += character.size;
  }
  return width;
}

std::string fit_width(std::string_view text, int64_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width < 1) return "";
  int64_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (used + character.width > width - 1) break;
    used += character.width;
    at += character.size;
  }
  return std::string(text.substr(0, at)) + "…";
}

std::vector<std::string> wrap_width(std::string_view text, int64_t width) {
  std::vector<std::string> lines;
  while (display_width(text) > width) {
    size_t at = 0;     // where the next character begins
    size_t space = 0;  // the last space that the line can end at
    for (int64_t used = 0; at < text.size();) {
      const Character character = character_at(text, at);
      if (text[at] == ' ') space = at;
      if (used + character.width > width && at > 0) break;
      used += character.width;
      at += character.size;
    }
    const size_t end = space > 0 ? space : at;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

std::string one_line(std::string_view text) {
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    line += character.control ? std::string_view(" ") : text.substr(at, character.size);
    at += character.size;
  }
  return line;
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e12;
  if (!(seconds >= 0 && seconds < kLongest)) return "-";
  const auto total = static_cast<int64_t>(std::llround(seconds));
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

std::string format_count(double count) {
  if (!std::isfinite(count)) return "-";
  constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  // 999.95 and more would print as 1000.0.
  while (std::abs(count) >= (unit == 0 ? 999.5 : 999.95) && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}{}", count, kUnits[unit]);
}

std::string format_small(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return fmt::format("{}", value);
  std::string text = fmt::format("{:.1e}", value);
  const size_t digits = text.find('e') + 2;
  while (text.size() > digits + 1 && text[digits] == '0') text.erase(digits, 1);
  if (text[digits - 1] == '+') text.erase(digits - 1, 1);
  return text;
}

}  // namespace fovea
