#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/config/value.h"
#include "fovea/core/numbers.h"

namespace fovea::config {
namespace {

namespace fs = std::filesystem;

struct Nouns {
  const char* one;
  const char* many;
};

template <typename T>
constexpr Nouns nouns() {
  if constexpr (std::is_same_v<T, bool>) return {"true or false", "true or false"};
  if constexpr (std::is_same_v<T, int64_t>) return {"a whole number", "whole numbers"};
  if constexpr (std::is_same_v<T, double>) return {"a number", "numbers"};
  if constexpr (std::is_same_v<T, std::string>) return {"text", "strings"};
  return {"a file path", "file paths"};
}

std::string bounds_text(const Bounds& bounds) {
  if (!bounds.low && !bounds.high) return {};
  if (bounds.low && bounds.high && !bounds.low_excluded && !bounds.high_excluded) {
    return fmt::format("from {} to {}", format_double(*bounds.low), format_double(*bounds.high));
  }
  std::string text;
  if (bounds.low) text = (bounds.low_excluded ? "above " : "of at least ") + format_double(*bounds.low);
  if (bounds.low && bounds.high) text += " and ";
  if (bounds.high) text += (bounds.high_excluded ? "below " : "at most ") + format_double(*bounds.high);
  return text;
}

std::string list_text(const Length& length, const char* items) {
  if (length.most == length.least) return fmt::format("a list of {} {}", length.least, items);
  if (length.least == 1) return fmt::format("a non-empty list of {}", items);
  return length.least > 0 ? fmt::format("a list of at least {} {}", length.least, items)
                          : fmt::format("a list of {}", items);
}

std::string words(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// The type that a value's pointer points to.
template <typename Pointer>
using Pointed = std::remove_pointer_t<Pointer>;

std::string item_text(bool value) {
  return value ? "true" : "false";
}
std::string item_text(int64_t value) {
  return fmt::format("{}", value);
}
std::string item_text(double value) {
  return format_double(value);
}
std::string item_text(const std::string& value) {
  return yaml_text(value);
}
std::string item_text(const EnumValue& value) {
  return yaml_text(value.name());
}
std::string item_text(const fs::path& value) {
  return yaml_text(value.empty() ? std::string() : fs::absolute(value).lexically_normal().string());
}

}  // namespace

std::string expected_text(const Setting& setting) {
  return std::visit(
      [&](auto* pointer) -> std::string {
        using T = Pointed<decltype(pointer)>;
        constexpr Nouns kNouns = nouns<typename ItemOf<T>::type>();
        const Rule& rule = setting.rule;
        const std::string bounds = bounds_text(rule.bounds);
        if constexpr (ItemOf<T>::kList) {
          std::string text = list_text(rule.length, kNouns.many);
          if (!bounds.empty()) text += ", each " + bounds;
          if (!rule.choices.empty()) text += ", each one of " + words(rule.choices);
          return text;
        }
        std::string text = rule.choices.empty() ? kNouns.one : "one of " + words(rule.choices);
        if (!bounds.empty()) text += " " + bounds;
        if (ItemOf<T>::kOptional) text += " or null";
        return text;
      },
      setting.value);
}

std::string value_text(const Value& value) {
  return std::visit(
      [](auto* pointer) -> std::string {
        using T = Pointed<decltype(pointer)>;
        if constexpr (ItemOf<T>::kList) {
          std::vector<std::string> items;
          for (const auto& item : *pointer) items.push_back(item_text(item));
          return fmt::format("[{}]", fmt::join(items, ", "));
        } else if constexpr (ItemOf<T>::kOptional) {
          return pointer->has_value() ? item_text(**pointer) : "null";
        } else {
          return item_text(*pointer);
        }
      },
      value);
}

std::string yaml_text(const std::string& text) {
  static constexpr std::array kNotText = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};  // YAML 1.1's
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '/' || c == '+';
  };
  std::string lower = text;
  for (char& c : lower) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  const bool plain = !text.empty() && (is_letter(text[0]) || text[0] == '/') &&
                     std::all_of(text.begin(), text.end(), is_plain) &&
                     std::find(kNotText.begin(), kNotText.end(), lower) == kNotText.end();
  if (plain) return text;
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const std::string_view rest = std::string_view(text).substr(i);
    if (text[i] == '"' || text[i] == '\\') {
      quoted += '\\';
      quoted += text[i];
    } else if (text[i] == '\n') {
      quoted += "\\n";
    } else if (text[i] == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else if (rest.substr(0, 2) == "\xC2\x85") {  // next line, line and paragraph separators end a line in YAML 1.1
      quoted += "\\u0085";
      i += 1;
    } else if (rest.substr(0, 3) == "\xE2\x80\xA8" || rest.substr(0, 3) == "\xE2\x80\xA9") {
      quoted += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      quoted += text[i];
    }
  }
  return quoted + "\"";
}

}  // namespace fovea::config
