#pragma once

#include <cstdint>

namespace fovea::decode {

/// The token ids that models and decoding must know.
struct SpecialTokens {
  int64_t pad = 0, bos = 0, eos = 0, unk = 0;
};

}  // namespace fovea::decode
