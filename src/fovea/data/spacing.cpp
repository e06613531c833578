#include "fovea/data/spacing.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace fovea::data {
namespace {

/// How many characters a word has on average in a script that puts no spaces between words.
constexpr double kHan = 1.7, kKana = 2.5, kAlphabetic = 4.5;

struct Script {
  utf8proc_int32_t first, last;
  double word;
};

constexpr auto kScripts = std::to_array<Script>({
    {0x0E00, 0x0EFF, kAlphabetic},  // Thai, Lao
    {0x0F00, 0x0FFF, kAlphabetic},  // Tibetan
    {0x1000, 0x109F, kAlphabetic},  // Burmese
    {0x1780, 0x17FF, kAlphabetic},  // Khmer
    {0x3040, 0x30FF, kKana},
    {0x31F0, 0x31FF, kKana},
    {0x3400, 0x4DBF, kHan},
    {0x4E00, 0x9FFF, kHan},
    {0xF900, 0xFAFF, kHan},
    {0x20000, 0x3FFFF, kHan},
});

/// The share of a word that a character is; 0 in scripts with spaces.
double share_of_word(utf8proc_int32_t code) {
  const auto script = std::find_if(kScripts.begin(), kScripts.end(),
                                   [code](const Script& s) { return code >= s.first && code <= s.last; });
  return script == kScripts.end() ? 0 : 1 / script->word;
}

/// What was counted over the texts.
struct Words {
  double unspaced = 0;  // words of scripts without spaces, guessed from the number of characters
  int64_t pieces = 0;   // stretches between spaces that have some
  int64_t unspaced_letters = 0, letters = 0;

  void add(std::string_view text) {
    bool is_counted = false;  // this stretch
    while (!text.empty()) {
      utf8proc_int32_t code = 0;
      const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                         static_cast<utf8proc_ssize_t>(text.size()), &code);
      text.remove_prefix(size > 0 ? static_cast<size_t>(size) : 1);
      if (size <= 0) continue;
      const auto category = utf8proc_category(code);
      if (category < UTF8PROC_CATEGORY_LU || category > UTF8PROC_CATEGORY_ND) {
        is_counted = false;  // spaces and punctuation: both end a word
        continue;
      }
      ++letters;
      const double share = share_of_word(code);
      if (share == 0) continue;
      ++unspaced_letters;
      unspaced += share;
      pieces += is_counted ? 0 : 1;
      is_counted = true;
    }
  }
};

}  // namespace

bool lacks_spaces(const std::vector<std::string>& texts) {
  constexpr double kMostWords = 1.5;    // in a stretch; where there are spaces it is one
  constexpr double kFewLetters = 0.25;  // a quotation in another script
  Words words;
  for (const auto& text : texts) words.add(text);
  return words.pieces > 0 && words.unspaced / static_cast<double>(words.pieces) > kMostWords &&
         static_cast<double>(words.unspaced_letters) > kFewLetters * static_cast<double>(words.letters);
}

}  // namespace fovea::data
