#include "fovea/data/text.h"

#include "fovea/core/error.h"
#include "fovea/core/utf8.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

#include <clocale>
#include <utility>

using namespace fovea;
using namespace std::string_literals;

namespace {

std::string complaint(const std::string& text, int64_t first_line = 1) {
  return error_of([&] { data::check_utf8(text, "fra.txt", first_line); });
}

std::vector<std::string> lines_of(std::string_view text) {
  const auto views = data::split_lines(text);
  return {views.begin(), views.end()};
}

using Strings = std::vector<std::string>;

// The bytes of a character that cannot be seen.
std::string excerpt_of(const std::string& text) {
  std::string bytes;
  for (const char c : text) bytes += std::to_string(static_cast<unsigned char>(c)) + " ";
  return bytes;
}

}  // namespace

TEST_CASE("check_utf8 passes good text and drops one byte order mark", "[text]") {
  CHECK(data::check_utf8("", "x").empty());
  CHECK(data::check_utf8("\uFEFFGo.\r\nÇa \U0001F600\n", "x") == "Go.\r\nÇa \U0001F600\n");
  CHECK(data::check_utf8("\uFEFFx", "x", 2) == "\uFEFFx");  // not at the start of a file
}

TEST_CASE("check_utf8 names the file, the line and what it found", "[text]") {
  CHECK_THAT(complaint("a\nd\xE9"
                       "j\xE0\n"),
             ContainsSubstring("fra.txt:2: expected UTF-8 text, found byte 0xE9; in Latin-1 that is 'é'"));
  CHECK(complaint("\x89PNG\r\n\x1A\n\0\0"s) == "fra.txt: expected lines of text, found a PNG image");
  CHECK_THAT(complaint("caf\xE9"), ContainsSubstring("fra.txt:1: expected UTF-8 text, found a character cut off at"));
  CHECK_THAT(complaint("caf\xE9\n"), ContainsSubstring("fra.txt:1: expected UTF-8 text, found byte 0xE9"));
  for (const std::string cut : {"\xC3", "\xE2\x80", "\xF0\x9F\x98"}) {
    CHECK_THAT(complaint("a\n\nb" + cut), ContainsSubstring("fra.txt:3: expected UTF-8 text, found a character cut"));
  }
  // A stray continuation, overlong forms, a surrogate, beyond U+10FFFF, Windows-1252 quotes.
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                "\xF5\x80\x80\x80", "\xFE", "\x93quote\x94"}) {
    CHECK_THAT(complaint("ok\n" + bad + " x\n"), ContainsSubstring("fra.txt:2: expected UTF-8 text, found "));
    CHECK_FALSE(is_utf8(bad));
  }
  CHECK_THAT(complaint("a\nb\0c\n"s), ContainsSubstring("fra.txt:2: expected text, found a NUL byte"));
  CHECK_THAT(complaint("a", 7).append("none"), ContainsSubstring("none"));
  CHECK_THAT(complaint("\xFFx", 7), ContainsSubstring("fra.txt:7: "));
}

TEST_CASE("C15 check_utf8 recognises UTF-16 and UTF-32", "[text]") {
  CHECK_THAT(complaint("\xFF\xFEG\0o\0"s),
             ContainsSubstring("found UTF-16; convert it with: iconv -f UTF-16 -t UTF-8"));
  CHECK_THAT(complaint("\xFE\xFF\0G\0o"s), ContainsSubstring("found UTF-16;"));
  // iconv takes UTF-16 without a mark for little-endian.
  CHECK_THAT(complaint("G\0o\0.\0"s),
             ContainsSubstring("found UTF-16 without a byte order mark; convert it with: iconv -f UTF-16LE -t UTF-8"));
  CHECK_THAT(complaint("\0G\0o\0."s),
             ContainsSubstring("found UTF-16 without a byte order mark; convert it with: iconv -f UTF-16BE -t UTF-8"));
  CHECK_THAT(complaint("\xFF\xFE\0\0G\0\0\0"s), ContainsSubstring("found UTF-32;"));
}

TEST_CASE("C13 only LF and CR LF end a line", "[text]") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("\n") == Strings{""});
  CHECK(lines_of("a") == Strings{"a"});
  CHECK(lines_of("a\n") == Strings{"a"});
  CHECK(lines_of("a\r\nb\n\r\n\nc") == Strings{"a", "b", "", "", "c"});
  CHECK(lines_of("a\u2028b\u0085c\vd\fe\n").size() == 1);
  for (const std::string lone : {"a\rb\n", "a\r\r\n", "a\r"}) {
    CHECK_THAT(complaint("x\n" + lone), ContainsSubstring("fra.txt:2: expected lines that end in LF or CR LF"));
  }
}

TEST_CASE("C16 every Unicode space counts as a plain one", "[text]") {
  const std::string spaces[] = {" ",      "  ",     "\t",     "\v",     "\f",     "\u0085",  "\u00a0",
                                "\u1680", "\u2000", "\u2001", "\u2009", "\u200a", "\u2028",  "\u2029",
                                "\u202f", "\u205f", "\u3000", "\x1c",   "\r",     " \u00a0 "};
  for (const auto& space : spaces) {
    CHECK(data::normalize(space + "Va" + space + "!" + space) == "Va !");
    CHECK(data::to_tokens("Va" + space + "!") == Strings{"va", "!"});
    CHECK(data::is_blank(space));
    CHECK(data::to_tokens(space).empty());
  }
  CHECK(data::normalize("zero\u200bwidth") == "zero\u200bwidth");  // joins, as in Python
  CHECK(data::is_blank(""));
  CHECK_FALSE(data::is_blank("\u00a0x"));
}

TEST_CASE("C55: a word with characters that have no shape is the word without", "[text]") {
  for (const std::string invisible : {"\u00ad", "\u200b", "\u2060", "\ufeff", "\u200e", "\u200f", "\u061c", "\u202a",
                                      "\u202e", "\u2066", "\u2069", "\u200c", "\u200d"}) {
    INFO(excerpt_of(invisible));
    CHECK(data::unify_characters("wo" + invisible + "rd") == "word");
    CHECK(data::to_tokens(invisible + "Wo" + invisible + "rd" + invisible + "!") == Strings{"word", "!"});
    CHECK(data::to_tokens(invisible).empty());
    CHECK(data::is_blank(" " + invisible + "\u00a0" + invisible));
    CHECK_FALSE(data::is_blank(invisible, /*unify=*/false));
    CHECK(data::to_tokens("wo" + invisible + "rd", {.unify = false}) == Strings{"wo" + invisible + "rd"});
  }
  CHECK(data::unify_characters("tab\tand\u00a0space, «é» … – “q” 😀") == "tab\tand\u00a0space, «é» … – “q” 😀");
  CHECK_THROWS_AS(data::unify_characters("\xE2\x80"), Error);
}

TEST_CASE("C55: joiners stay where they shape what is around them", "[text]") {
  const std::string persian = "می\u200cخواهم", scientist = "👩🏽\u200d🔬", rainbow = "🏳\ufe0f\u200d🌈",
                    conjunct = "क्\u200dष", heh = "ه\u200d";
  for (const std::string& text : {persian, scientist, rainbow, conjunct, heh}) {
    CHECK(data::unify_characters(text) == text);
    CHECK(data::to_tokens(text) == Strings{text});
  }
  // After a space, a Latin letter, punctuation, another joiner; at the end of a word nothing is seen of U+200C.
  CHECK(data::unify_characters("می\u200c می\u200c") == "می می");
  CHECK(data::unify_characters("\u200dمی—\u200dمی") == "می—می");
  CHECK(data::unify_characters("👩\u200d\u200d🔬") == scientist.substr(0, 4) + "\u200d🔬");
  CHECK(data::unify_characters("می\u200b\u200cخواهم") == persian);
}

TEST_CASE("C55: U+2019 is an apostrophe unless it closes a quotation", "[text]") {
  CHECK(data::unify_characters("l’eau, don’t, ’tis, the dogs’ bowls, 80’s") ==
        "l'eau, don't, 'tis, the dogs' bowls, 80's");
  CHECK(data::unify_characters("‘yes’ and ‘don’t’, l’eau") == "‘yes’ and ‘don't’, l'eau");
  CHECK(data::to_tokens("L’École") == data::to_tokens("L'École"));
  CHECK(data::to_tokens("L’École", {.unify = false}) == Strings{"l’école"});
  for (const std::string text : {"‘yes’ and ‘don’t’, l’eau", "’’‘a’’ b’", "می\u200c\u200cخ ‘\u200d’"}) {
    CHECK(data::unify_characters(data::unify_characters(text)) == data::unify_characters(text));
  }
}

TEST_CASE("normalize composes", "[text]") {
  CHECK(data::normalize("e\u0301cole c\u0327a") == "école ça");
  CHECK(data::normalize("\u212b \u1100\u1161") == "Å \uac00");  // singleton, Hangul
  CHECK(data::normalize("q\u0307\u0323") == "q\u0323\u0307");   // canonical order
  CHECK(data::normalize("“Œuvre” … ﬁn") == "“Œuvre” … ﬁn");     // no compatibility mapping
  CHECK_THROWS_AS(data::normalize("\xE2\x80"), Error);
  CHECK_THROWS_AS(data::normalize("a\xE9"), Error);
}

TEST_CASE("C17 lower is Python's str.lower() in every locale", "[text]") {
  const std::pair<std::string, std::string> cases[] = {
      {"ÉCOLE ÇA À Œuvre ÎLE", "école ça à œuvre île"},
      {"Go.", "go."},
      {"İstanbul I ı", "i\u0307stanbul i ı"},
      {"ΟΔΟΣ ΣΑΣ Σ", "οδος σας σ"},
      {"ΑΣ.Β ΑΣ. ΑΣ' Α'Σ", "ασ.β ας. ας' α'ς"},
      {"1Σ ªΣ ⅣΣ AΣ\u0301B AΣ\u0301", "1σ ªς ⅳς aσ\u0301b aς\u0301"},
      {"STRASSE ẞ ŒÆ ǅ Ⅷ Ⓐ Ა \U00010400", "strasse ß œæ ǆ ⅷ ⓐ ა \U00010428"},
  };
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* locale : {"C", "C.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8"}) {
    if (std::setlocale(LC_ALL, locale) == nullptr) {
      WARN("not tested in " << locale << ": this machine does not have the locale");
      continue;
    }
    for (const auto& [upper, expected] : cases) CHECK(data::lower(upper) == expected);
  }
  std::setlocale(LC_ALL, before.c_str());
  CHECK_THROWS_AS(data::lower("\xE9"), Error);
}

TEST_CASE("tokens are d2l's", "[text]") {
  CHECK(data::space_punctuation("hello, world!") == "hello , world !");
  CHECK(data::space_punctuation("a!! ?b. .") == "a ! ! ?b . .");
  CHECK(data::space_punctuation(".a") == ".a");
  CHECK(data::space_punctuation("").empty());
  CHECK(data::tokenize("  a  b ") == Strings{"a", "b"});
  CHECK(data::tokenize(" ").empty());
  CHECK(data::to_tokens("Go now.") == Strings{"go", "now", "."});
  CHECK(data::to_tokens("L'École\u202f?!  3.5, «\u00a0Oui\u00a0»") ==
        Strings{"l'école", "?", "!", "3", ".5", ",", "«", "oui", "»"});
  CHECK(data::to_tokens("Go On", {.lowercase = false}) == Strings{"Go", "On"});
}

TEST_CASE("detokenize undoes the spacing of punctuation", "[text]") {
  CHECK(data::detokenize({"va", "!"}) == "va!");
  CHECK(data::detokenize({"oui", ",", "3", ".5", "?"}) == "oui, 3.5?");
  CHECK(data::detokenize({}).empty());
  for (const std::string line :
       {"Go now.", "L'École\u202f?!  3.5, «\u00a0Oui\u00a0»", "... ,a .", "!", "He said \"no.\""}) {
    const Strings tokens = data::to_tokens(line);
    CHECK(data::to_tokens(data::detokenize(tokens)) == tokens);
  }
}

TEST_CASE("excerpt cuts between characters and hides what a terminal would act on", "[text]") {
  CHECK(data::excerpt("court") == "court");
  CHECK(data::excerpt("éééé", 5) == "éé...");
  CHECK(data::excerpt("a\x1b[31m\t\xE9", 20) == "a?[31m??");
}

TEST_CASE("C50: an encoding is named only where the text is likely in it", "[text]") {
  CHECK_THAT(complaint("It\x92s here.\n"), ContainsSubstring("byte 0x92; in Windows-1252 that is '\u2019'") &&
                                               ContainsSubstring("iconv -f WINDOWS-1252 -t UTF-8"));
  CHECK_THAT(complaint("un d\xE9j\xE0 vu, na\xEFve\n"), ContainsSubstring("in Latin-1 that is '\u00e9'"));
  // "Привет, мир" in Windows-1251 and "你好，世界" in GBK.
  CHECK_THAT(complaint("\xCF\xF0\xE8\xE2\xE5\xF2, \xEC\xE8\xF0\n"), !ContainsSubstring("iconv"));
  CHECK_THAT(complaint("\xC4\xE3\xBA\xC3\xA3\xAC\xCA\xC0\xBD\xE7\n"), !ContainsSubstring("iconv"));
  CHECK_THAT(complaint("a\x81"
                       "b\n"),
             !ContainsSubstring("iconv"));  // no letter in Windows-1252
}
