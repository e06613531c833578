#pragma once

#include <cstdint>
#include <string_view>

namespace fovea {

/// FNV-1a of 64 bits. The published one adds bytes; where no other program has to agree, whole numbers are added.
struct Fnv1a {
  uint64_t value = 0xCBF29CE484222325ull;
  void add(uint64_t number) { value = (value ^ number) * 0x100000001B3ull; }
  /// The bytes and their number, so that "ab", "c" is not "a", "bc".
  void add_text(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  }
};

}  // namespace fovea
