#include "fovea/data/exif.h"

#include <cstddef>
#include <cstdint>

namespace fovea::data {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3;  // the type of a 16-bit number
constexpr size_t kEntrySize = 12;

/// Numbers in either order of bytes. Beyond the end they are 0.
class TiffBytes {
 public:
  explicit TiffBytes(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}

  bool is_tiff() const { return (little_ || bytes_.starts_with("MM")) && number(2, 2) == 42; }
  uint32_t number(size_t at, size_t size) const {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | byte(at + (little_ ? size - 1 - i : i));
    return value;
  }

 private:
  uint32_t byte(size_t at) const { return at < bytes_.size() ? static_cast<uint8_t>(bytes_[at]) : 0; }

  std::string_view bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::string_view tiff) {
  const TiffBytes bytes(tiff);
  if (!bytes.is_tiff()) return 1;
  const size_t directory = bytes.number(4, 4);
  const uint32_t entries = bytes.number(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntrySize;
    if (entry >= tiff.size()) return 1;
    if (bytes.number(entry, 2) != kOrientationTag || bytes.number(entry + 2, 2) != kShort) continue;
    const uint32_t value = bytes.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace fovea::data
