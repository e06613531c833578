#pragma once

#include <string>
#include <string_view>

#include "fovea/data/png_reader.h"

namespace fovea::data {

/// Decodes a JPEG: gray, or colour as red, green, blue. Throws Error naming the data where it is cut off, damaged, too
/// large, or of four colours (CMYK: kUsage). JPEG has no checksums: a byte changed inside the compressed data can give
/// another picture instead of an error.
RawImage decode_jpeg(std::string_view bytes, const std::string& name, int64_t max_pixels);

}  // namespace fovea::data
