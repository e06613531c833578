#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/config/checker.h"
#include "fovea/core/enum_names.h"
#include "fovea/core/error.h"

/// A setting is declared once, in its struct: name, type, default, range, help. Reading, overrides,
/// dumps, help and errors all come from that declaration:
///
///   struct TransformerConfig : config::Section {
///     int64_t num_hiddens = 256;
///     double dropout = 0.2;
///     nn::AttentionPath attention = nn::AttentionPath::kFlash;
///     void fields(config::Fields& f) override {
///       f("num_hiddens", num_hiddens, "width of every layer", config::range(1, 65536));
///       f("dropout", dropout, "share of activations set to 0", config::half_open(0, 1));
///       f("attention", attention, "how attention is computed");  // an enum: its names are the choices
///     }
///   };
namespace fovea::config {

class Fields;

/// Settings that belong together: a map of the document.
struct Section {
  virtual ~Section() = default;

  /// Lists the settings, always the same ones in the same order; does nothing else.
  virtual void fields(Fields& f) = 0;

  /// Refuses values that do not go together, with c.fail. Runs after everything is read, inner
  /// sections first.
  virtual void check(const Checker&) const {}
};

/// A section with nothing to set.
struct EmptySection : Section {
  void fields(Fields&) override {}
};

/// A section whose other keys depend on its key `name`: `model: {name: transformer, num_heads: 4}`.
/// Copies share the section.
struct Named {
  std::string name;  ///< the default when not empty; else the name is required
  std::shared_ptr<Section> section;

  /// The section as what its entry makes; an Error if it is something else.
  template <typename T>
  T& as() const {
    if (T* typed = dynamic_cast<T*>(section.get())) return *typed;
    fail("the section named '{}' is not of the type that is asked for", name);
  }
};

/// One of the names that a Named can have.
struct NamedEntry {
  std::string name;
  std::string summary;  ///< one line
  std::function<std::shared_ptr<Section>()> make;
};

/// The names of entries that have a NamedEntry `named` beside what else they know.
template <typename Entry>
std::vector<NamedEntry> named_of(const std::vector<Entry>& entries) {
  std::vector<NamedEntry> named;
  for (const auto& entry : entries) named.push_back(entry.named);
  return named;
}

/// The entry of that name; a usage Error where there is none.
template <typename Entry>
const Entry& entry_named(const std::vector<Entry>& entries, const std::string& name) {
  for (const auto& entry : entries) {
    if (entry.named.name == name) return entry;
  }
  fail_usage("there is nothing named '{}'", name);
}

/// The values a number may take. Limits of whole numbers are exact up to 2^53.
struct Bounds {
  std::optional<double> low, high;
  bool low_excluded = false;
  bool high_excluded = false;
};

/// [low, high]
inline Bounds range(double low, double high) {
  return {low, high};
}
/// [low, high)
inline Bounds half_open(double low, double high) {
  return {low, high, false, true};
}
/// [low, ...
inline Bounds at_least(double low) {
  return {low, std::nullopt};
}
/// (low, ...
inline Bounds above(double low) {
  return {low, std::nullopt, true};
}
/// (low, high]
inline Bounds above(double low, double high) {
  return {low, high, true};
}

/// The only texts allowed.
struct Choice {
  std::vector<std::string> names;
};
inline Choice choice(std::vector<std::string> names) {
  return {std::move(names)};
}

/// How many items a list has.
struct Length {
  size_t least = 0;
  std::optional<size_t> most;
};
inline Length length(size_t count) {
  return {count, count};
}
inline Length at_least_items(size_t count) {
  return {count, std::nullopt};
}

/// The key has no default and has to be given.
struct Required {};
inline constexpr Required required{};

/// The value that the configuration of a run stands for if the run is older than the key; else the default would change
/// what the run does.
struct Formerly {
  std::string text;  ///< as in YAML
};
inline Formerly formerly(std::string text) {
  return {std::move(text)};
}

/// All limits of one setting; bounds and choices of a list hold for each item.
struct Rule {
  Bounds bounds;
  std::vector<std::string> choices;
  Length length;
  bool required = false;
  std::optional<std::string> formerly;
};

/// An enum as a setting: text that must be one of the enum's names (core/enum_names.h).
class EnumValue {
 public:
  virtual ~EnumValue() = default;
  virtual std::string name() const = 0;
  virtual void set(std::string_view name) = 0;
};

/// Where a setting lives. std::optional is null (or absent) when unset. A path in a file is
/// relative to that file, on the command line to the working directory; it is stored absolute.
using Value = std::variant<bool*, int64_t*, double*, std::string*, std::filesystem::path*,                  //
                           std::optional<bool>*, std::optional<int64_t>*, std::optional<double>*,           //
                           std::optional<std::string>*, std::optional<std::filesystem::path>*, EnumValue*,  //
                           std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*,          //
                           std::vector<std::filesystem::path>*>;

template <typename T>
struct ItemOf {
  using type = T;
  static constexpr bool kOptional = false;
  static constexpr bool kList = false;
};
template <typename T>
struct ItemOf<std::optional<T>> {
  using type = T;
  static constexpr bool kOptional = true;
  static constexpr bool kList = false;
};
template <typename T>
struct ItemOf<std::vector<T>> {
  using type = T;
  static constexpr bool kOptional = false;
  static constexpr bool kList = true;
};

/// One declared setting.
struct Setting {
  std::string key;
  std::string help;
  Value value;
  Rule rule;
};

/// What goes over the declarations of a section. Users call it in Section::fields; its heirs read,
/// dump, explain.
class Fields {
 public:
  virtual ~Fields() = default;

  /// f("key", member, "help", options...): options are range(...) and its kin, choice({...}),
  /// length(n), required, formerly("..."). The choices of an enum are its names.
  template <typename T, typename... Options>
  void operator()(std::string_view key, T& value, std::string_view help, const Options&... options) {
    if constexpr (std::is_enum_v<T>) {
      static_assert(NamedEnum<T>, "declare enum_names beside the enum: see core/enum_names.h");
      BoundEnum<T> bound(value);
      Setting setting{std::string(key), std::string(help), Value(&bound), {}};
      setting.rule.choices = names_of<T>();
      (apply<T>(setting.rule, options), ...);
      on_setting(setting);
    } else {
      Setting setting{std::string(key), std::string(help), Value(&value), {}};
      (apply<T>(setting.rule, options), ...);
      on_setting(setting);
    }
  }

  /// A map inside this one.
  void section(std::string_view key, Section& section, std::string_view help) {
    on_section(std::string(key), section, std::string(help));
  }

  /// A map inside this one whose keys depend on its name. The entries are used during the call
  /// only.
  void named(std::string_view key, Named& named, const std::vector<NamedEntry>& entries, std::string_view help) {
    on_named(std::string(key), named, entries, std::string(help));
  }

 protected:
  virtual void on_setting(const Setting& setting) = 0;
  virtual void on_section(const std::string& key, Section& section, const std::string& help) = 0;
  virtual void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>& entries,
                        const std::string& help) = 0;

 private:
  template <typename E>
  class BoundEnum : public EnumValue {
   public:
    explicit BoundEnum(E& value) : value_(value) {}
    std::string name() const override { return std::string(name_of(value_)); }
    void set(std::string_view name) override { value_ = enum_from_name<E>(name); }

   private:
    E& value_;
  };

  template <typename T>
  static void apply(Rule& rule, const Bounds& bounds) {
    using Item = typename ItemOf<T>::type;
    static_assert(std::is_same_v<Item, int64_t> || std::is_same_v<Item, double>, "only numbers have a range");
    rule.bounds = bounds;
  }
  template <typename T>
  static void apply(Rule& rule, const Choice& choice) {
    static_assert(std::is_same_v<typename ItemOf<T>::type, std::string>,
                  "only text has choices; those of an enum are its names");
    rule.choices = choice.names;
  }
  template <typename T>
  static void apply(Rule& rule, const Length& length) {
    static_assert(ItemOf<T>::kList, "only lists have a length");
    rule.length = length;
  }
  template <typename T>
  static void apply(Rule& rule, const Formerly& formerly) {
    rule.formerly = formerly.text;
  }
  template <typename T>
  static void apply(Rule& rule, const Required&) {
    static_assert(!ItemOf<T>::kOptional, "an optional setting is not required");
    rule.required = true;
  }
};

}  // namespace fovea::config
