#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace fovea {

/// "1 pair", "2 pairs". A noun that takes more than an s has its plural said: counted(n, "class", "classes").
std::string counted(std::integral auto count, std::string_view noun, std::string_view plural = {}) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

}  // namespace fovea
