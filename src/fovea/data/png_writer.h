#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::data {

/// The bytes of a PNG file: pixels (channels, height, width), 1 (gray) or 3 (red, green, blue) channels.
/// Throws Error where the sizes do not fit together.
std::string encode_png(int64_t channels, int64_t height, int64_t width, const std::vector<uint8_t>& pixels);

}  // namespace fovea::data
