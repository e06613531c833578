#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea::data {

/// The most pixels of an image that is read: 64 megapixels. A file of a hundred bytes can promise four billion.
inline constexpr int64_t kMaxImagePixels = int64_t{64} << 20;

/// Reads a PNG or JPEG file: uint8 (channels, height, width), with 1 (gray) or 3 (red, green, blue) channels as asked.
/// The content decides which it is, not the name. The values are those of Python's
/// `ImageOps.exif_transpose(Image.open(path)).convert('L' or 'RGB')` of an opaque image:
///
///   - colour becomes gray by PIL's (ITU-R 601-2) weights, (19595 R + 38470 G + 7471 B + 32768) >> 16;
///   - what is transparent (an alpha channel, a tRNS chunk) is laid on white, as a page shows it; on black where that
///     would leave a blank sheet, as of a white drawing. An alpha that is opaque changes nothing;
///   - the orientation in EXIF data is heeded: height and width are those of the upright picture;
///   - palettes and gray of 1, 2 or 4 bits are expanded to 8;
///   - of 16 bits the high 8 are kept. (PIL does so for colour; it clips 16-bit gray at 255, which is no picture.)
///
/// Gamma and colour profiles are ignored, as PIL does unless told otherwise.
///
/// Throws Error naming the file: kUsage where it is missing, unreadable, neither PNG nor JPEG (saying what it is), or a
/// CMYK JPEG; or where it is cut off, damaged or larger than `max_pixels`, before memory is taken for its pixels.
/// Nothing is ever filled in for what is missing.
at::Tensor read_image(const std::filesystem::path& path, int64_t channels, int64_t max_pixels = kMaxImagePixels);

/// The same of a file's bytes; `name` names them in errors.
at::Tensor decode_image(std::string_view bytes, const std::string& name, int64_t channels,
                        int64_t max_pixels = kMaxImagePixels);

}  // namespace fovea::data
