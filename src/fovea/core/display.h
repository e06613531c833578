#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// A width that no text has.
inline constexpr int64_t kUnlimitedWidth = int64_t{1} << 60;

/// The columns that a UTF-8 text takes on a terminal: 2 for wide characters, 0 for combining ones
/// and controls. Bytes that are no UTF-8 count as 1 each.
int64_t display_width(std::string_view text);

/// The text if it is at most `width` columns wide, else its beginning with "…" for the rest.
std::string fit_width(std::string_view text, int64_t width);

/// The text in lines of at most `width` columns, broken at spaces; a word that is longer is cut between characters. One
/// empty line for an empty text. A single character that is wider than `width` keeps a line of its own.
std::vector<std::string> wrap_width(std::string_view text, int64_t width);

/// A shell command in lines of at most `width` columns that can be pasted as they are: each but the last ends in a
/// backslash. Arguments in quotes stay whole.
std::vector<std::string> wrap_command(const std::string& command, int64_t width);

/// A message with its lines broken to at most `width` columns; 0: no limit. `column`: where the first line begins.
/// Lines end between fields (two spaces part them), and in fields that are wider between words; what follows is
/// indented. A longer word, a path for instance, stays whole. What follows ": fovea " is a command, broken as
/// wrap_command does.
std::string wrap_message(std::string_view text, int64_t width, int64_t column = 0);

/// The text with each control character, line ends and tabs included, replaced by a space: safe in
/// one line.
std::string one_line(std::string_view text);

std::string format_duration(double seconds);  // "0:42", "12:05", "3:07:00"; "-" unless finite and >= 0
std::string format_count(double count);       // "950", "5.3k", "1.2M", "7.0G"; "-" unless finite
std::string format_small(double value);       // two digits, for learning rates: "1.0e-3", "0"

}  // namespace fovea
