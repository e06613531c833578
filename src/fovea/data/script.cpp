#include "fovea/data/script.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace fovea::data {
namespace {

struct ScriptRange {
  utf8proc_int32_t first, last;
  std::string_view name;
};

constexpr auto kScriptRanges = std::to_array<ScriptRange>({
    {0x0041, 0x024F, "Latin"},          {0x0370, 0x03FF, "Greek"},        {0x0400, 0x052F, "Cyrillic"},
    {0x0531, 0x058F, "Armenian"},       {0x0590, 0x05FF, "Hebrew"},       {0x0600, 0x077F, "Arabic"},
    {0x0900, 0x097F, "Devanagari"},     {0x0980, 0x09FF, "Bengali"},      {0x0A80, 0x0AFF, "Gujarati"},
    {0x0B80, 0x0BFF, "Tamil"},          {0x0C00, 0x0C7F, "Telugu"},       {0x0E00, 0x0E7F, "Thai"},
    {0x1000, 0x109F, "Burmese"},        {0x10A0, 0x10FF, "Georgian"},     {0x1100, 0x11FF, "Hangul"},
    {0x1200, 0x137F, "Ethiopic"},       {0x1780, 0x17FF, "Khmer"},        {0x1E00, 0x1EFF, "Latin"},
    {0x1F00, 0x1FFF, "Greek"},          {0x3040, 0x30FF, "Han and Kana"}, {0x31F0, 0x31FF, "Han and Kana"},
    {0x3400, 0x9FFF, "Han and Kana"},   {0xAC00, 0xD7AF, "Hangul"},       {0xF900, 0xFAFF, "Han and Kana"},
    {0xFB50, 0xFDFF, "Arabic"},         {0xFE70, 0xFEFC, "Arabic"},       {0xFF21, 0xFF5A, "Latin"},
    {0x20000, 0x3FFFF, "Han and Kana"}, {0, 0x10FFFF, "other"},
});

}  // namespace

std::string_view script_of(std::string_view text) {
  std::array<int64_t, kScriptRanges.size()> letters{};
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code);
    text.remove_prefix(size > 0 ? static_cast<size_t>(size) : 1);
    if (size <= 0) continue;
    const auto category = utf8proc_category(code);
    if (category < UTF8PROC_CATEGORY_LU || category > UTF8PROC_CATEGORY_LO) continue;
    const auto range = std::find_if(kScriptRanges.begin(), kScriptRanges.end(),
                                    [code](const ScriptRange& r) { return code >= r.first && code <= r.last; });
    // All ranges of one name together.
    const auto named = std::find_if(kScriptRanges.begin(), kScriptRanges.end(),
                                    [&](const ScriptRange& r) { return r.name == range->name; });
    ++letters[static_cast<size_t>(named - kScriptRanges.begin())];
  }
  const auto most = std::max_element(letters.begin(), letters.end());
  return *most == 0 ? std::string_view{} : kScriptRanges[static_cast<size_t>(most - letters.begin())].name;
}

}  // namespace fovea::data
