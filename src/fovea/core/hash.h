#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// One number for many bytes, eight at a time: of images, say. Equal bytes have equal ones.
inline uint64_t hash_words(const uint8_t* bytes, size_t size) {
  Fnv1a hash;
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
    hash.add(word);
    hash.value ^= hash.value >> 32;  // the high bits of a product never reach the low ones by themselves
  }
  return hash.value;
}

}  // namespace fovea
