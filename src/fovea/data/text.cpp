#include "fovea/data/text.h"

#include "fovea/core/content.h"
#include "fovea/core/error.h"
#include "fovea/core/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>

namespace fovea::data {
namespace {

using CodePoint = utf8proc_int32_t;

constexpr CodePoint kCapitalIWithDot = 0x130;
constexpr CodePoint kCombiningDotAbove = 0x307;
constexpr CodePoint kCapitalSigma = 0x3A3;
constexpr CodePoint kSmallSigma = 0x3C3;
constexpr CodePoint kFinalSigma = 0x3C2;

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_ascii(c); });
}

/// The first character of `text` and its length in bytes; length 0 if it is not valid UTF-8.
struct Character {
  CodePoint code;
  size_t length;
};

Character first_character(std::string_view text) {
  if (is_ascii(text[0])) return {text[0], 1};
  CodePoint code = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size(), 4)), &code);
  return {code, length > 0 ? static_cast<size_t>(length) : 0};
}

[[noreturn]] void fail_invalid_utf8() {
  fail("expected UTF-8 text, found bytes that are none");
}

std::vector<CodePoint> decode_utf8(std::string_view text) {
  std::vector<CodePoint> codes;
  codes.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.length == 0) fail_invalid_utf8();
    codes.push_back(character.code);
    text.remove_prefix(character.length);
  }
  return codes;
}

void append_utf8(std::string& out, CodePoint code) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(code, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

/// Python's str.isspace(): Unicode's White_Space and the four information separators of ASCII.
bool is_space(CodePoint code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

constexpr CodePoint kOpeningQuote = 0x2018;
constexpr CodePoint kApostrophe = 0x2019;
constexpr CodePoint kNonJoiner = 0x200C;
constexpr CodePoint kJoiner = 0x200D;

/// What has no shape and changes none: unify_characters() drops it wherever it is.
bool is_invisible(CodePoint code) {
  return code == 0xAD || code == 0x61C || code == 0x200B || code == 0x200E || code == 0x200F ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2060 && code <= 0x2064) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

/// Whether a joiner beside it may have something to join.
bool is_joined(CodePoint code) {
  return code >= 0x590 && !is_space(code) && !is_invisible(code) && !(code >= 0x2000 && code <= 0x206F) &&
         !(code >= 0x3000 && code <= 0x303F);
}

bool is_letter_or_digit(CodePoint code) {
  const auto category = utf8proc_category(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO);  // letters, marks, numbers
}

/// False if unify_characters() surely leaves the text alone: nothing of U+00AD, U+061C, U+2000-207F and U+FEC0-FEFF is
/// in it. So it is with nearly every line.
bool may_need_unifying(std::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]), second = static_cast<unsigned char>(text[i + 1]);
    if (first < 0xC2) continue;
    if ((first == 0xC2 && second == 0xAD) || (first == 0xD8 && second == 0x9C) || (first == 0xEF && second == 0xBB) ||
        (first == 0xE2 && (second == 0x80 || second == 0x81))) {
      return true;
    }
  }
  return false;
}

/// True if NFC surely leaves the text alone but for its spaces: everything lies below the first
/// combining character (U+0300) or in U+2000..U+203F, typographic quotes, dashes and spaces. Nearly
/// every line of a European corpus does.
bool is_surely_nfc(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0xCC) continue;
    if (byte != 0xE2 || i + 1 == text.size() || static_cast<unsigned char>(text[i + 1]) != 0x80) return false;
  }
  return true;
}

std::string to_nfc(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0) fail_usage("expected UTF-8 text: {}", utf8proc_errmsg(length));
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

/// Unicode's Case_Ignorable: some categories, and the word break classes MidLetter, MidNumLet and
/// Single_Quote.
bool is_case_ignorable(CodePoint code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  static constexpr auto kOthers =
      std::to_array<CodePoint>({0x27, 0x2E, 0x3A, 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A});
  return std::binary_search(kOthers.begin(), kOthers.end(), code);
}

/// Unicode's Cased, of those that are not Case_Ignorable: Lu, Ll, Lt, and of Other_Lowercase and
/// Other_Uppercase the ordinals, Roman numerals and enclosed letters.
bool is_cased(CodePoint code) {
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT ||
         code == 0xAA || code == 0xBA || (code >= 0x2160 && code <= 0x217F) || (code >= 0x24B6 && code <= 0x24E9) ||
         (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
         (code >= 0x1F170 && code <= 0x1F189);
}

/// Unicode's Final_Sigma (table 3-17): a cased letter before, none after, case-ignorable characters
/// skipped.
bool is_final_sigma(const std::vector<CodePoint>& codes, size_t position) {
  const auto at = codes.begin() + static_cast<std::ptrdiff_t>(position);
  const auto before = std::find_if_not(std::make_reverse_iterator(at), codes.rend(), is_case_ignorable);
  if (before == codes.rend() || !is_cased(*before)) return false;
  const auto after = std::find_if_not(at + 1, codes.end(), is_case_ignorable);
  return after == codes.end() || !is_cased(*after);
}

void refuse_wide_encodings(std::string_view text, const std::string& file) {
  using namespace std::string_view_literals;
  std::string_view found, encoding = "UTF-16";
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) {
    found = encoding = "UTF-32";
  } else if (text.starts_with("\xFF\xFE"sv) || text.starts_with("\xFE\xFF"sv)) {
    found = "UTF-16";
  } else if (text.size() >= 4 && (text[0] == '\0') != (text[1] == '\0') && (text[0] == '\0') == (text[2] == '\0') &&
             (text[1] == '\0') == (text[3] == '\0')) {
    found = "UTF-16 without a byte order mark";
    encoding = text[0] == '\0' ? "UTF-16BE" : "UTF-16LE";  // the zeros are the high bytes of letters
  }
  if (!found.empty()) {
    fail_usage("{}: expected UTF-8 text, found {}; convert it with: iconv -f {} -t UTF-8", file, found, encoding);
  }
}

/// An encoding that the text is likely in, and what its first character is there.
struct EncodingGuess {
  std::string_view name, iconv;
  std::string character;
};

/// Of text that begins with a byte that is not UTF-8. In the languages that Latin-1 and Windows-1252 are for, such
/// bytes are letters or signs that stand alone among ASCII; in Cyrillic, Greek or Chinese encodings they stand side by
/// side.
std::optional<EncodingGuess> guess_encoding(std::string_view text) {
  constexpr size_t kLooked = size_t{1} << 16;
  constexpr std::array<CodePoint, 32> kWindows1252 = {0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                                      0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                                      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                      0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};
  text = text.substr(0, kLooked);
  int64_t high = 0, beside = 0;
  bool is_windows = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) continue;
    ++high;
    if (i + 1 < text.size() && !is_ascii(text[i + 1])) ++beside;
    if (byte < 0xA0) {
      if (kWindows1252[byte - 0x80] == 0) return std::nullopt;
      is_windows = true;
    }
  }
  if (beside * 10 > high) return std::nullopt;
  const auto first = static_cast<unsigned char>(text[0]);
  EncodingGuess guess{is_windows ? "Windows-1252" : "Latin-1", is_windows ? "WINDOWS-1252" : "ISO-8859-1", {}};
  append_utf8(guess.character, first < 0xA0 ? kWindows1252[first - 0x80] : first);
  return guess;
}

/// What is wrong with a text that begins with the first byte that is not valid UTF-8.
std::string describe_invalid_utf8(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  // A character that is fine so far but for the end of the text.
  const size_t needed = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
  const bool is_lead = byte >= 0xC2 && byte <= 0xF4;
  const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  if (is_lead && text.size() < needed && std::all_of(text.begin() + 1, text.end(), is_continuation)) {
    return fmt::format("expected UTF-8 text, found a character cut off at the end (byte 0x{:02X}): is it complete?",
                       byte);
  }
  if (const auto guess = guess_encoding(text)) {
    return fmt::format(
        "expected UTF-8 text, found byte 0x{:02X}; in {} that is '{}': convert it with: iconv -f {} -t UTF-8", byte,
        guess->name, guess->character, guess->iconv);
  }
  return fmt::format("expected UTF-8 text, found an invalid byte sequence that begins with 0x{:02X}", byte);
}

/// Where a text is not what a corpus may be.
struct TextProblem {
  int64_t line;  // from 0 on
  std::string what;
};

std::optional<TextProblem> find_problem(std::string_view text) {
  int64_t line = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
    } else if (c == '\r' && text.substr(i + 1, 1) != "\n") {
      return TextProblem{line,
                         "expected lines that end in LF or CR LF, found a carriage return (CR) elsewhere; if all lines "
                         "end so, convert the file with: tr '\\r' '\\n'"};
    } else if (c == '\0') {
      return TextProblem{line, "expected text, found a NUL byte"};
    }
    const size_t length = first_character(text.substr(i)).length;
    if (length == 0) return TextProblem{line, describe_invalid_utf8(text.substr(i))};
    i += length;
  }
  return std::nullopt;
}

}  // namespace

std::string_view check_encoding(std::string_view text, const std::string& file) {
  refuse_wide_encodings(text, file);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

std::string_view check_utf8(std::string_view text, const std::string& file, int64_t first_line) {
  if (first_line == 1) text = check_encoding(text, file);
  const auto problem = find_problem(text);
  if (!problem) return text;
  const std::string_view format = first_line == 1 && text.find('\0') != text.npos ? binary_format(text) : "";
  if (!format.empty()) fail_usage("{}: expected lines of text, found {}", file, format);
  fail_usage("{}:{}: {}", file, first_line + problem->line, problem->what);
}

void check_line(std::string_view line) {
  if (const auto problem = find_problem(line)) fail_usage("{}", problem->what);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::string normalize(std::string_view line) {
  std::string composed;
  if (!is_surely_nfc(line)) {
    composed = to_nfc(line);
    line = composed;
  }
  std::string out;
  out.reserve(line.size());
  bool is_space_due = false;
  while (!line.empty()) {
    const Character character = first_character(line);
    if (character.length == 0) fail_invalid_utf8();
    if (is_space(character.code)) {
      is_space_due = !out.empty();
    } else {
      if (is_space_due) out += ' ';
      is_space_due = false;
      out.append(line.substr(0, character.length));
    }
    line.remove_prefix(character.length);
  }
  return out;
}

std::string unify_characters(std::string_view text) {
  if (!may_need_unifying(text)) return std::string(text);
  std::vector<CodePoint> codes = decode_utf8(text);
  std::erase_if(codes, is_invisible);
  std::string out;
  out.reserve(text.size());
  constexpr CodePoint kNone = ' ';  // before the first character and after the last
  CodePoint before = kNone;         // of what was kept
  int64_t open_quotes = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    CodePoint code = codes[i];
    const CodePoint after = i + 1 < codes.size() ? codes[i + 1] : kNone;
    if (code == kNonJoiner && !(is_joined(before) && is_joined(after))) continue;
    if (code == kJoiner && !is_joined(before)) continue;
    if (code == kOpeningQuote) ++open_quotes;
    if (code == kApostrophe) {
      const bool is_inside_word = is_letter_or_digit(before) && is_letter_or_digit(after);
      if (is_inside_word || open_quotes == 0) {
        code = '\'';
      } else {
        --open_quotes;
      }
    }
    append_utf8(out, code);
    before = code;
  }
  return out;
}

bool is_blank(std::string_view text, bool unify) {
  if (unify && may_need_unifying(text) && is_utf8(text)) return is_blank(unify_characters(text), false);
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.length == 0 || !is_space(character.code)) return false;
    text.remove_prefix(character.length);
  }
  return true;
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (is_ascii(text)) {
    for (const char c : text) out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return out;
  }
  const std::vector<CodePoint> codes = decode_utf8(text);
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == kCapitalIWithDot) {
      out += 'i';
      append_utf8(out, kCombiningDotAbove);
    } else if (codes[i] == kCapitalSigma) {
      append_utf8(out, is_final_sigma(codes, i) ? kFinalSigma : kSmallSigma);
    } else {
      append_utf8(out, utf8proc_tolower(codes[i]));
    }
  }
  return out;
}

std::string space_punctuation(std::string_view text) {
  constexpr std::string_view kPunctuation = ",.!?";
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    if (kPunctuation.find(c) != std::string_view::npos && !out.empty() && out.back() != ' ') out += ' ';
    out += c;
  }
  return out;
}

std::vector<std::string> tokenize(std::string_view text) {
  std::vector<std::string> tokens;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return tokens;
    const size_t end = std::min(text.find(' '), text.size());
    tokens.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string> to_characters(std::string_view text, const TextOptions& options) {
  std::string line = options.unify ? normalize(unify_characters(text)) : normalize(text);
  if (options.lowercase) line = normalize(lower(line));  // a small letter may compose with a mark where none did
  std::vector<std::string> characters;
  characters.reserve(line.size());
  for (size_t at = 0; at < line.size();) {
    const size_t length = utf8_length(line, at);
    if (length == 0) fail("expected UTF-8 text, found bytes that are none");
    characters.emplace_back(line, at, length);
    at += length;
  }
  return characters;
}

std::vector<std::string> to_tokens(std::string_view line, const TextOptions& options) {
  std::string text = options.unify ? normalize(unify_characters(line)) : normalize(line);
  if (options.lowercase) text = lower(text);
  return tokenize(space_punctuation(text));
}

std::string detokenize(const std::vector<std::string>& tokens) {
  std::string out;
  for (const auto& token : tokens) {
    if (!out.empty() && token.find_first_of(",.!?") != 0) out += ' ';
    out += token;
  }
  return out;
}

std::string excerpt(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const Character character = first_character(text);
    const size_t length = std::max<size_t>(character.length, 1);
    if (out.size() + length > max_bytes) return out + "...";
    const bool is_shown = character.length > 0 && utf8proc_category(character.code) != UTF8PROC_CATEGORY_CC;
    out += is_shown ? text.substr(0, length) : "?";
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace fovea::data
