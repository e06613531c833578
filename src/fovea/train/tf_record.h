#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea::train {

/// CRC-32C (Castagnoli): 0xe3069283 for "123456789".
uint32_t crc32c(std::string_view bytes);

/// The payload framed as TensorFlow's record files have it: its length (8 bytes, little-endian),
/// the masked CRC-32C of those, the payload, the masked CRC-32C of the payload.
std::string tf_record(std::string_view payload);

}  // namespace fovea::train
