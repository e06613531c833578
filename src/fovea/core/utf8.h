#pragma once

#include <cstddef>
#include <string_view>

namespace fovea {

/// The bytes of the UTF-8 character that starts at `at`; 0 where none does: overlong forms, surrogates and what lies
/// beyond U+10FFFF are none.
size_t utf8_length(std::string_view text, size_t at);

/// True if the bytes are UTF-8 from end to end.
bool is_utf8(std::string_view text);

}  // namespace fovea
