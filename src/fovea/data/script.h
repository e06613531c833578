#pragma once

#include <string_view>

namespace fovea::data {

/// The writing that most letters of a UTF-8 text are of: "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew",
/// "Devanagari", "Thai", "Han and Kana", "Hangul" ...; "other" for writings that have no name here, empty where there
/// is no letter.
std::string_view script_of(std::string_view text);

}  // namespace fovea::data
