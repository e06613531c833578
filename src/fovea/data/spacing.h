#pragma once

#include <string>
#include <vector>

namespace fovea::data {

/// Whether most of the texts' words stand without spaces between them, as in Chinese, Japanese, Thai, Lao, Khmer,
/// Burmese and Tibetan: what cuts at spaces, as word tokenizers and BLEU's 13a do, then takes a clause for one word.
///
/// Decided by script, never by length, so that German and Finnish compounds are words; text of these scripts in which
/// spaces were put between the words is text with spaces. Invalid bytes count for nothing.
bool lacks_spaces(const std::vector<std::string>& texts);

}  // namespace fovea::data
