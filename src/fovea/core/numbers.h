#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fovea {

/// A number read from text, or why there is none. `reason` is a short phrase for the end of a
/// message
/// ("text follows the number", "write 1000"), set when there is no value.
template <typename T>
struct Parsed {
  std::optional<T> value;
  std::string reason;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
};

/// Reads a whole number in decimal. The whole text has to match: no spaces, no unit, no fraction,
/// no exponent, no leading zeros (so 010 can never be taken for 8); one sign is allowed.
/// Independent of the locale.
Parsed<int64_t> parse_int(std::string_view text);

/// Reads a finite number: 1, -0.5, .001, 1e-3, 1.0e-3, 1E-3. The whole text has to match; nan, inf
/// and numbers that a double cannot hold (1e400, 1e-400) are refused. Independent of the locale.
Parsed<double> parse_double(std::string_view text);

/// The shortest text that parse_double reads back to exactly `value`: 0.0001, 65536, 1.0e-09. With
/// an exponent there is always a point, without which YAML 1.1 takes the number for text.
std::string format_double(double value);

}  // namespace fovea
