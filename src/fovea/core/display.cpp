#include "fovea/core/display.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace fovea {
namespace {

constexpr int64_t kContinued = 2;      // what the further lines of a message are indented by
constexpr int64_t kCommandIndent = 4;  // of the further lines of a command
constexpr std::string_view kCommandFollows = ": fovea ";

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

// What a line of a message may be broken between.
struct Piece {
  std::string_view gap;  // the spaces before it
  std::string_view text;
  bool is_command;
};

// The pieces of a line for lines of `room` columns, the first of which has `first_room`.
std::vector<Piece> pieces_of(std::string_view line, int64_t first_room, int64_t room) {
  std::vector<Piece> pieces;
  const size_t size = line.size();
  const auto end_at = [size](size_t found) { return std::min(found, size); };
  const size_t follows = line.find(kCommandFollows);
  const size_t command = follows == std::string_view::npos ? size : follows + 2;
  for (size_t field = 0; field < size;) {
    const size_t field_text = end_at(line.find_first_not_of(' ', field));
    const size_t field_end = end_at(line.find("  ", field_text));
    const bool fits =
        display_width(line.substr(field_text, field_end - field_text)) <= (field == 0 ? first_room : room);
    for (size_t at = field; at < field_end;) {
      const size_t begin = end_at(line.find_first_not_of(' ', at));
      size_t end = fits ? field_end : end_at(line.find(' ', begin));
      const bool is_command = begin == command;
      if (is_command) {
        const size_t next = std::min(line.find(", ", begin), line.find("; ", begin));
        end = next == std::string_view::npos ? size : next + 1;
      }
      pieces.push_back({line.substr(at, begin - at), line.substr(begin, end - begin), is_command});
      at = end;
    }
    field = std::max(field_end, static_cast<size_t>(pieces.back().text.end() - line.begin()));
  }
  return pieces;
}

std::string wrap_line(std::string_view line, int64_t width, int64_t column) {
  if (column + display_width(line) <= width) return std::string(line);
  const std::string indent(std::min(line.find_first_not_of(' '), line.size()) + kContinued, ' ');
  const int64_t room = width - static_cast<int64_t>(indent.size());
  std::string text;
  bool is_first = true;
  for (const Piece& piece : pieces_of(line, width - column, room)) {
    const int64_t wide = display_width(piece.gap) + display_width(piece.text);
    if (is_first || column + wide <= width) {
      text += piece.gap;
      text += piece.text;
      column += wide;
      is_first = false;
      continue;
    }
    const std::string whole(piece.text);
    for (const std::string& part : piece.is_command ? wrap_command(whole, room) : std::vector<std::string>{whole}) {
      text += "\n" + indent + part;
      column = static_cast<int64_t>(indent.size()) + display_width(part);
    }
  }
  return text;
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

std::vector<std::string> wrap_command(const std::string& command, int64_t width) {
  if (display_width(command) <= width) return {command};
  std::vector<std::string> words(1);
  char quote = '\0';
  for (const char c : command) {
    if (c == ' ' && quote == '\0') {
      words.emplace_back();
      continue;
    }
    if (c == '"' || c == '\'') quote = quote == '\0' ? c : (quote == c ? '\0' : quote);
    words.back() += c;
  }
  std::vector<std::string> lines = {words.front()};
  for (size_t i = 1; i < words.size(); ++i) {
    // An option and its value stay together.
    const bool has_value = words[i].starts_with("-") && i + 1 < words.size() && !words[i + 1].starts_with("-");
    const std::string next = has_value ? words[i] + " " + words[i + 1] : words[i];
    if (display_width(lines.back()) + 1 + display_width(next) + 2 <= width) {  // " \"
      lines.back() += " " + next;
    } else {
      lines.back() += " \\";
      lines.push_back(std::string(kCommandIndent, ' ') + next);
    }
    i += has_value ? 1 : 0;
  }
  return lines;
}

std::string wrap_message(std::string_view text, int64_t width, int64_t column) {
  if (width <= 0) return std::string(text);
  std::string wrapped;
  for (size_t at = 0;; column = 0) {
    const size_t end = text.find('\n', at);
    wrapped += wrap_line(text.substr(at, end - at), width, column);
    if (end == std::string_view::npos) return wrapped;
    wrapped += '\n';
    at = end + 1;
  }
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
