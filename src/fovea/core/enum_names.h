#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fovea/core/error.h"

/// The names of an enum's values, declared once beside the enum, for settings, help and messages:
///
///   enum class Colour { kRed, kGreen };
///   constexpr auto enum_names(Colour) {
///     return std::to_array<EnumName<Colour>>({{Colour::kRed, "red"}, {Colour::kGreen, "green"}});
///   }
///
/// The argument says which enum is meant; its value is ignored. Help lists the names in that order.
namespace fovea {

template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};

/// An enum that has names.
template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires {
  enum_names(E{});
};

/// "red"; an Error for a value without a name.
template <NamedEnum E>
std::string_view name_of(E value) {
  for (const auto& item : enum_names(E{})) {
    if (item.value == value) return item.name;
  }
  fail("an enum has no name for its value {}", static_cast<long long>(value));
}

/// All names, in the order of their declaration.
template <NamedEnum E>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& item : enum_names(E{})) names.emplace_back(item.name);
  return names;
}

/// The value of that name; an Error for a name that no value has.
template <NamedEnum E>
E enum_from_name(std::string_view name) {
  for (const auto& item : enum_names(E{})) {
    if (item.name == name) return item.value;
  }
  fail("no value of an enum is called '{}'", name);
}

}  // namespace fovea
