#include "fovea/core/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace fovea {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: up to here a double holds every whole number

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Splits the sign off; std::from_chars takes a '-' but no '+'.
std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  return text;
}

std::string_view without_plus(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  return text;
}

// What is wrong with the text before any conversion; empty if it may be a number.
std::string objection(std::string_view text) {
  if (text.empty()) return "there is no text";
  const std::string_view body = without_sign(text);
  const bool starts_like_number =
      !body.empty() && (is_digit(body[0]) || (body[0] == '.' && body.size() > 1 && is_digit(body[1])));
  if (!starts_like_number) {
    std::string word;
    for (const char c : body) word += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
    if (!word.empty() && word[0] == '.') word.erase(0, 1);
    if (word == "nan" || word == "inf" || word == "infinity") return "it is not a finite number";
    return "it is not a number";
  }
  if (body.size() > 1 && body[0] == '0' && (body[1] == 'x' || body[1] == 'X')) return "write it in decimal";
  if (body.size() > 1 && body[0] == '0' && is_digit(body[1])) return "write it without leading zeros";
  return {};
}

// The value is out of a double's range: tell the two directions apart by the text.
bool is_tiny(std::string_view text) {
  const std::string_view body = without_sign(text);
  const size_t exponent = body.find_first_of("eE");
  if (exponent != std::string_view::npos && exponent + 1 < body.size()) return body[exponent + 1] == '-';
  return body[0] == '0' || body[0] == '.';
}

}  // namespace

Parsed<double> parse_double(std::string_view text) {
  if (std::string reason = objection(text); !reason.empty()) return {std::nullopt, std::move(reason)};
  const std::string_view digits = without_plus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return {std::nullopt, "text follows the number"};
  if (error == std::errc::result_out_of_range) {
    return {std::nullopt, is_tiny(text) ? "it is too close to zero for a double" : "it is too large for a double"};
  }
  if (error != std::errc() || !std::isfinite(value)) return {std::nullopt, "it is not a finite number"};
  return {value, {}};
}

Parsed<int64_t> parse_int(std::string_view text) {
  if (std::string reason = objection(text); !reason.empty()) return {std::nullopt, std::move(reason)};
  const std::string_view digits = without_plus(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return {value, {}};
  if (const Parsed<double> real = parse_double(text)) {
    if (*real != std::floor(*real)) return {std::nullopt, "it has a fraction"};
    if (std::abs(*real) < kExactIntegers) return {std::nullopt, fmt::format("write {:.0f}", *real)};
    return {std::nullopt, "it does not fit into 64 bits"};
  } else {
    return {std::nullopt, real.reason};
  }
}

std::string format_double(double value) {
  char buffer[64];
  const double size = std::abs(value);
  const bool fixed = size == 0 || (size >= 1e-5 && size < 1e15);
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

}  // namespace fovea
