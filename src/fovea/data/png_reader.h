#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

/// The pixels of a file as they are stored there: row by row, 1 or 3 interleaved bytes each; 2 or 4 with an alpha.
struct RawImage {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // (height, width, channels)
  int orientation = 1;          // as EXIF numbers them, 1 to 8: where the top and the left of the picture are
};

/// What is wrong with an image of this size, which a file's header promises; thrown as Error before memory is taken.
void check_image_size(const std::string& name, uint64_t height, uint64_t width, int64_t max_pixels);

/// Decodes a PNG, its alpha with it if there is one, be it a channel or a tRNS chunk; see decode_image() for what
/// becomes of palettes and 16 bits. Throws Error naming the data where it is cut off, damaged (every checksum is
/// verified) or too large.
RawImage decode_png(std::string_view bytes, const std::string& name, int64_t max_pixels);

}  // namespace fovea::data
