#include "fovea/config/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/counted.h"
#include "fovea/core/numbers.h"
#include "fovea/core/suggest.h"
#include "fovea/core/user_path.h"
#include "fovea/core/utf8.h"

namespace fovea::config {
namespace {

namespace fs = std::filesystem;

std::string found_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map (keys below it)";
    case Node::Kind::kScalar:
      break;
  }
  return quote(node.text) + (node.quoted ? " in quotes" : "");
}

// One value on its way into a setting: what is expected and where it stands.
struct Reading {
  const Setting& setting;
  const std::string& path;

  [[noreturn]] void fail(const Node& node, const std::string& hint = {}) const {
    fail_at(node.origin,
            fmt::format("{}: expected {}, found {}{}", path, expected_text(setting), found_text(node), hint));
  }

  template <typename T>
  T number(const Node& node, const Parsed<T>& parsed) const {
    if (node.quoted) fail(node, parsed ? "; remove the quotes" : "");
    if (!parsed) fail(node, fmt::format(" ({})", parsed.reason));
    const Bounds& bounds = setting.rule.bounds;
    const double value = static_cast<double>(*parsed);
    const bool too_low = bounds.low && (bounds.low_excluded ? value <= *bounds.low : value < *bounds.low);
    const bool too_high = bounds.high && (bounds.high_excluded ? value >= *bounds.high : value > *bounds.high);
    if (too_low || too_high) fail(node);
    return *parsed;
  }

  void read(const Node& node, int64_t& value) const { value = number(node, parse_int(node.text)); }
  void read(const Node& node, double& value) const { value = number(node, parse_double(node.text)); }

  void read(const Node& node, bool& value) const {
    const bool is_true = node.text == "true";
    if (!is_true && node.text != "false") fail(node, other_boolean(node.text));
    if (node.quoted) fail(node, "; remove the quotes");
    value = is_true;
  }

  void check_choice(const Node& node) const {
    const std::vector<std::string>& choices = setting.rule.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), node.text) == choices.end()) {
      fail(node, did_you_mean(node.text, choices));
    }
  }

  void read(const Node& node, std::string& value) const {
    check_choice(node);
    value = node.text;
  }

  void read(const Node& node, EnumValue& value) const {
    check_choice(node);
    value.set(node.text);
  }

  void read(const Node& node, fs::path& value) const {
    if (node.text.empty()) fail(node);
    // A configuration that comes through a pipe lies nowhere.
    const bool in_file = !node.origin.is_argument() && !node.origin.file.empty() && is_lasting(node.origin.file);
    const fs::path base = in_file ? fs::absolute(node.origin.file).parent_path() : fs::current_path();
    try {
      value = (base / fs::path(user_path(node.text))).lexically_normal();
    } catch (const Error& e) {
      fail_at(node.origin, fmt::format("{}: {}", path, e.what()));
    }
    // A run keeps its paths in a YAML file, which is UTF-8.
    if (!is_utf8(value.string())) {
      fail_at(node.origin, fmt::format("{}: the path {} is not UTF-8, so no configuration can hold it; rename it, or "
                                       "give a link with another name",
                                       path, quote(value.string())));
    }
  }

  static std::string other_boolean(const std::string& text) {
    std::string lower = text;
    for (char& c : lower) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower == "yes" || lower == "on" || lower == "y" || lower == "1" || lower == "true") return "; write true";
    if (lower == "no" || lower == "off" || lower == "n" || lower == "0" || lower == "false") return "; write false";
    return {};
  }

  template <typename T>
  void read_item(const Node& node, T& value) const {
    if (!node.is_scalar()) fail(node);
    read(node, value);
  }

  template <typename T>
  void read_list(const Node& node, std::vector<T>& values) const {
    if (!node.is_list()) fail(node, node.is_scalar() ? fmt::format("; write [{}]", printable(node.text)) : "");
    const Length& length = setting.rule.length;
    if (node.items.size() < length.least || (length.most && node.items.size() > *length.most)) {
      fail_at(node.origin, fmt::format("{}: expected {}, found {}", path, expected_text(setting),
                                       counted(node.items.size(), "item")));
    }
    std::vector<T> read_values;
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string item_path = fmt::format("{}[{}]", path, i);
      const Setting item{setting.key, setting.help, Value(static_cast<T*>(nullptr)), setting.rule};
      Reading{item, item_path}.read_item(node.items[i], read_values.emplace_back());
    }
    values = std::move(read_values);
  }
};

}  // namespace

void assign(const Setting& setting, const Node::Entry& entry, const std::string& path) {
  const Node& node = entry.value;
  const Reading reading{setting, path};
  std::visit(
      [&](auto* pointer) {
        using T = std::remove_pointer_t<decltype(pointer)>;
        if constexpr (ItemOf<T>::kOptional) {
          if (node.is_null()) {
            pointer->reset();
            return;
          }
        }
        if (node.is_null()) {
          fail_at(entry.key_origin, fmt::format("{}: has no value; expected {}", path, expected_text(setting)));
        }
        if constexpr (ItemOf<T>::kList) {
          reading.read_list(node, *pointer);
        } else if constexpr (ItemOf<T>::kOptional) {
          typename ItemOf<T>::type value{};
          reading.read_item(node, value);
          *pointer = std::move(value);
        } else {
          reading.read_item(node, *pointer);
        }
      },
      setting.value);
}

}  // namespace fovea::config
