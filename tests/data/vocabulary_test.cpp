#include "fovea/data/vocabulary.h"

#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

#include <fmt/format.h>

using namespace fovea;

namespace {

using Strings = std::vector<std::string>;
using Ids = std::vector<int64_t>;

/// The vocabulary of one sentence.
data::Vocabulary vocabulary_of(const Strings& sentence, const Strings& reserved = {}) {
  return data::Vocabulary(std::vector<Strings>{sentence}, 1, reserved);
}

std::string damage(const std::string& text) {
  return error_of([&] { data::Vocabulary::parse(text, "v.txt"); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The same file with a checksum that fits, so that only the other checks can object.
std::string resealed(const std::string& text) {
  const size_t body = text.find('\n') + 1;
  const std::string header = text.substr(0, text.find("crc32="));
  return header + fmt::format("crc32={:08x}\n", fovea::crc32(std::string_view(text).substr(body))) + text.substr(body);
}

}  // namespace

TEST_CASE("the vocabulary is sorted by code point, as d2l's", "[vocabulary]") {
  const data::Vocabulary v({{"va", "!", "a", "va"}, {"\U0001F600", "\uFFFD", "é", "a", "!"}});
  Strings tokens;
  for (int64_t i = 0; i < v.size(); ++i) tokens.push_back(v.token(i));
  // Python: sorted({'<unk>', '<pad>', '<bos>', '<eos>', 'va', '!', 'a', '😀', '\ufffd', 'é'})
  CHECK(tokens == Strings{"!", "<bos>", "<eos>", "<pad>", "<unk>", "a", "va", "é", "\uFFFD", "\U0001F600"});
  CHECK(v.bos() == 1);
  CHECK(v.eos() == 2);
  CHECK(v.pad() == 3);
  CHECK(v.unk() == 4);
  CHECK(v.id("va") == 6);
  CHECK(v.id("never") == v.unk());
}

TEST_CASE("min_freq drops rare tokens", "[vocabulary]") {
  const std::vector<Strings> sentences = {{"a", "b", "a"}, {"c", "b"}};
  CHECK(data::Vocabulary(sentences, 0).size() == 7);
  CHECK(data::Vocabulary(sentences, 1).size() == 7);
  CHECK(data::Vocabulary(sentences, 2).size() == 6);
  CHECK(data::Vocabulary(sentences, 3).size() == 4);
  CHECK(vocabulary_of({}).size() == 4);
  CHECK_THAT(error_of([&] { data::Vocabulary(sentences, -1); }),
             ContainsSubstring("min_freq: expected 0 or more, found -1"));
}

TEST_CASE("text cannot reach reserved tokens", "[vocabulary]") {
  const Strings text = {"<eos>", "a", "<pad>", "<bos>", "<unk>", "<mask>", "<EOS>"};
  const data::Vocabulary v = vocabulary_of(text, {"<mask>"});
  CHECK(v.size() == 7);
  const int64_t unk = v.unk();
  CHECK(v.encode(text) == Ids{unk, v.id("a"), unk, unk, unk, unk, v.id("<EOS>")});
  CHECK(v.id("<EOS>") != unk);
  CHECK(v.token(v.reserved_id("<mask>")) == "<mask>");
  CHECK(v.is_reserved(v.reserved_id("<mask>")));
  CHECK_FALSE(v.is_reserved(v.id("a")));
  CHECK_THAT(error_of([&] { v.reserved_id("a"); }), ContainsSubstring("expected a reserved token a, found none"));
}

TEST_CASE("decode stops at <eos>; ids are checked", "[vocabulary]") {
  const data::Vocabulary v = vocabulary_of({"a", "b"});
  CHECK(v.decode({v.bos(), v.id("b"), v.unk(), v.pad(), v.id("a"), v.eos(), v.id("a")}) == Strings{"b", "<unk>", "a"});
  CHECK(v.decode({}).empty());
  CHECK_THAT(error_of([&] { v.token(6); }), ContainsSubstring("expected an id from 0 to 5, found 6"));
  CHECK_THROWS_AS(v.token(-1), Error);
  CHECK_THROWS_AS(v.decode({99}), Error);
}

TEST_CASE("C19 any token comes back from a file", "[vocabulary]") {
  const TempDir dir;
  const data::Vocabulary v = vocabulary_of({"\u00a0",
                                            "#",
                                            "\\",
                                            "\"",
                                            "0",
                                            "---",
                                            " ",
                                            " a ",
                                            "\\n",
                                            "\n",
                                            "\r",
                                            "\t",
                                            "\\x0a",
                                            "\x7f",
                                            "\u2028",
                                            "\u0085",
                                            "\uFEFF",
                                            "reserved",
                                            "fovea-vocabulary 1",
                                            "é\u0301",
                                            "<mask>"},
                                           {"<mask>", "<a b>", "<\t>"});
  CHECK(v.size() == 27);
  v.save(dir / "vocabulary.txt");
  const data::Vocabulary loaded = data::Vocabulary::load(dir / "vocabulary.txt");
  CHECK(loaded == v);
  for (int64_t i = 0; i < v.size(); ++i) CHECK(loaded.token(i) == v.token(i));
  CHECK(loaded.reserved_id("<\t>") == v.reserved_id("<\t>"));
  CHECK(loaded.dump() == v.dump());
  CHECK_FALSE(loaded == vocabulary_of({"\u00a0"}));
  CHECK_FALSE(vocabulary_of({"x"}) == vocabulary_of({}, {"x"}));  // same tokens, other roles
  CHECK_THAT(error_of([&] { data::Vocabulary::load(dir / "none.txt"); }), ContainsSubstring("none.txt"));
  CHECK_THROWS_AS(vocabulary_of({""}), Error);
  CHECK_THROWS_AS(vocabulary_of({"\xE9"}), Error);
}

TEST_CASE("C19 a damaged vocabulary file is an error with its line", "[vocabulary]") {
  const std::string good = vocabulary_of({"a", "b", "c", "\\"}).dump();
  // 1 header, 2 reserved, 3 <bos>, 4 <eos>, 5 <pad>, 6 <unk>, 7 backslash, 8 a, 9 b, 10 c
  REQUIRE_NOTHROW(data::Vocabulary::parse(good, "v.txt"));
  CHECK_THAT(damage(replaced(good, "\nb\n", "\n\nb\n")), ContainsSubstring("v.txt:9: expected a token, found nothing"));
  CHECK_THAT(damage(good + "a\n"), ContainsSubstring("v.txt:11: expected each token once, found \"a\" again"));
  CHECK_THAT(damage(replaced(good, "b\n", "b\r\n")), ContainsSubstring("v.txt"));
  std::string crlf = good;
  for (size_t at = 0; (at = crlf.find('\n', at)) != std::string::npos; at += 2) crlf.insert(at, 1, '\r');
  CHECK_THAT(damage(crlf), ContainsSubstring("v.txt:1: expected a line that ends in LF, found CR LF"));
  CHECK_THAT(damage(replaced(good, "\nc\n", "\n")),
             ContainsSubstring("v.txt:1: expected as many tokens as the header says") && ContainsSubstring("found 7"));
  CHECK_THAT(damage(replaced(good, "\nc\n", "\nc")), ContainsSubstring("v.txt:10: expected a line that ends in LF"));
  CHECK_THAT(damage(replaced(good, "\nb\n", "\n\\b\n")), ContainsSubstring("v.txt:9: expected a token with"));
  CHECK_THAT(damage(replaced(good, "\nb\n", "\n\\x62\n")), ContainsSubstring("v.txt:9: expected a token with"));
  CHECK_THAT(damage(replaced(good, "\t<eos>", "")), ContainsSubstring("v.txt:2: expected <eos> among the reserved"));
  CHECK_THAT(damage(replaced(good, "\n<eos>\n", "\nx\n")), ContainsSubstring("expected a line for the reserved token"));
  CHECK_THAT(damage(replaced(good, "\nb\n", "\n\xE9\n")), ContainsSubstring("v.txt:9: expected UTF-8"));
  CHECK_THAT(damage(replaced(good, "reserved", "reserve")), ContainsSubstring("v.txt:2: expected \"reserved\""));
  CHECK_THAT(damage(replaced(good, "vocabulary 1", "vocabulary 2")),
             ContainsSubstring("v.txt:1: expected a vocabulary"));
  CHECK_THAT(damage(""), ContainsSubstring("v.txt:1: "));
  CHECK_THAT(damage("\uFEFF" + good), ContainsSubstring("v.txt:1: expected a vocabulary"));
  // Two words swapped: each line alone is fine, and yet every translation would be wrong.
  CHECK_THAT(damage(replaced(good, "\na\nb\n", "\nb\na\n")), ContainsSubstring("the file was changed after it was"));
  CHECK_THAT(damage(replaced(good, "crc32=", "crc32=0")), ContainsSubstring("the file was changed"));
  CHECK_NOTHROW(data::Vocabulary::parse(resealed(replaced(good, "\na\nb\n", "\nb\na\n")), "v.txt"));
  for (size_t size = 0; size < good.size(); ++size) CHECK_FALSE(damage(good.substr(0, size)).empty());
}
