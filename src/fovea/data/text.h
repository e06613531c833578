#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

/// Text of d2l's machine translation pipeline (section 10.5, `MTFraEng`), made robust: raw bytes
/// are checked once by check_utf8(), cut into lines by split_lines(), and each line becomes tokens
/// by to_tokens().
///
/// Every function that takes text expects UTF-8 and depends on no locale. The per-line functions
/// throw Error where the UTF-8 is invalid; only check_utf8() can name a file and a line, so it
/// comes first.

/// Checks that the text is what a corpus may be and returns it without a byte order mark.
/// Throws Error, naming `file` and the line (the first of the text is `first_line`), for invalid
/// UTF-8 (with a guess at the encoding), UTF-16 or UTF-32, a character cut off at the end, a NUL,
/// and a carriage return that is not part of a CR LF.
std::string_view check_utf8(std::string_view text, const std::string& file, int64_t first_line = 1);

/// What concerns a text as a whole, given its beginning: returns it without a byte order mark, and throws Error naming
/// `file` for UTF-16 or UTF-32.
std::string_view check_encoding(std::string_view text, const std::string& file);

/// What check_utf8() checks, of one line without its end. The Error names neither file nor line.
void check_line(std::string_view line);

/// The lines of the text, without their ends. Only LF or CR LF ends a line, so that two parallel
/// files stay aligned whatever U+2028 or U+0085 they hold; the last line may lack its end. The
/// views point into `text`.
std::vector<std::string_view> split_lines(std::string_view text);

/// Unicode NFC; each run of white space becomes one space; none at either end. White space is what
/// Python's str.split() takes for it: the equal of `" ".join(unicodedata.normalize("NFC",
/// line).split())`.
std::string normalize(std::string_view line);

/// The text as one sees it, for characters that look alike or like nothing:
///
///   - characters without a shape are dropped: U+00AD soft hyphen, U+061C, U+200B zero-width space, U+200E and U+200F,
///     U+202A to U+202E, U+2060 word joiner to U+2064, U+2066 to U+2069 (directions), U+FEFF byte order mark;
///   - U+200C and U+200D, the joiners, stay where they shape what is around them, as in Persian words and in emoji:
///     after a character from U+0590 on that is no space and no punctuation of U+2000-206F or U+3000-303F; U+200C only
///     if such a character follows too. Elsewhere they are dropped;
///   - U+2019 is an apostrophe and becomes U+0027, unless it closes a quotation that U+2018 opened. Between two letters
///     or digits it is always an apostrophe.
std::string unify_characters(std::string_view text);

/// True if there is nothing but white space, in the sense of normalize(), and nothing but what unify_characters() drops
/// unless `unify` is false.
bool is_blank(std::string_view text, bool unify = true);

/// Python's str.lower(): full Unicode lower-casing, with `İ` becoming two characters and a capital
/// sigma at the end of a word becoming a final one.
std::string lower(std::string_view text);

/// d2l's `_preprocess`: a space before each of , . ! ? that follows something other than a space.
std::string space_punctuation(std::string_view text);

/// d2l's `_tokenize`: the pieces between spaces (U+0020); no empty ones.
std::vector<std::string> tokenize(std::string_view text);

struct TextOptions {
  bool lowercase = true;
  bool unify = true;  // unify_characters()

  bool operator==(const TextOptions&) const = default;
};

/// From a raw line to its tokens: unify_characters() and lower() if asked for, normalize(), space_punctuation(),
/// tokenize().
std::vector<std::string> to_tokens(std::string_view line, const TextOptions& options = {});

/// The same into Unicode characters, spaces among them, without space_punctuation(). Throws Error for what is no UTF-8.
std::vector<std::string> to_characters(std::string_view text, const TextOptions& options = {});

/// Joins tokens with spaces, but puts none before a token that begins with , . ! or ?: it undoes
/// space_punctuation(), and to_tokens(detokenize(tokens)) gives the tokens back. French typography
/// would want a (no-break) space before
/// `!` and `?`; BLEU's 13a tokens do not see the difference.
std::string detokenize(const std::vector<std::string>& tokens);

/// The beginning of a text for an error message: at most `max_bytes`, cut between characters and
/// marked with "..."; control characters and invalid bytes become '?'.
std::string excerpt(std::string_view text, size_t max_bytes = 60);

}  // namespace fovea::data
