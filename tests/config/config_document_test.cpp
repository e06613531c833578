#include "fovea/config/document.h"

#include <fstream>
#include <string>

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea::config;

namespace {

std::string yaml_error(const std::string& text) {
  try {
    parse_yaml(text, "x.yaml");
  } catch (const fovea::Error& error) {
    CHECK(error.kind() == fovea::ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

std::string text_at(const Node& root, const std::string& path) {
  const Node::Entry* entry = root.find_path(path);
  return entry == nullptr ? "absent" : entry->value.text;
}

}  // namespace

TEST_CASE("the tree keeps order, places and quotes", "[config]") {
  const Node root = parse_yaml("# head\nmodel:\n  name: gru\n  sizes: [1, 2]\nnote: 'a: b'\nlr:\n", "dir/x.yaml");
  REQUIRE(root.is_map());
  REQUIRE(root.entries.size() == 3);
  CHECK(root.entries[0].key == "model");
  CHECK(root.entries[0].key_origin.text() == "dir/x.yaml:2");
  CHECK(root.find_path("model.name")->key_origin.line == 3);
  CHECK(text_at(root, "model.name") == "gru");
  CHECK_FALSE(root.find_path("model.name")->value.quoted);
  CHECK(root.find_path("model.sizes")->value.items.size() == 2);
  CHECK(root.find("note")->value.quoted);
  CHECK(text_at(root, "note") == "a: b");
  CHECK(root.find("lr")->value.is_null());
  CHECK(root.find_path("model.name.deeper") == nullptr);
  CHECK(root.find_path("nothing.at.all") == nullptr);
}

TEST_CASE("scalars stay as written", "[config][C31]") {
  const Node root =
      parse_yaml("language: no\nzip: 010\nv: 1.10\nt: 12:30:00\nn: \"null\"\nb: |\n  two\n  lines\n", "x");
  CHECK(text_at(root, "language") == "no");
  CHECK(text_at(root, "zip") == "010");
  CHECK(text_at(root, "v") == "1.10");
  CHECK(text_at(root, "t") == "12:30:00");
  CHECK(root.find("n")->value.is_scalar());
  CHECK(text_at(root, "b") == "two\nlines\n");
}

TEST_CASE("byte order mark, CRLF, document marks and comments are no trouble", "[config]") {
  CHECK(text_at(parse_yaml("\xEF\xBB\xBF"
                           "a: 1\r\nb: 2\r\n",
                           "x"),
                "b") == "2");
  CHECK(text_at(parse_yaml("---\na: 1\n...\n", "x"), "a") == "1");
  CHECK(text_at(parse_yaml("a: 1 # \xC3\xA9\nb: \xE2\x82\xAC", "x"), "b") == "\xE2\x82\xAC");
  CHECK(text_at(parse_yaml("a:\t1\t# a tab that is no indentation\n", "x"), "a") == "1");
  CHECK(text_at(parse_yaml("a: 'it''s'\nb: \"q\\\"\"\nc: 'a\n  b'\n", "x"), "a") == "it's");
}

TEST_CASE("duplicate keys are refused with both lines", "[config][C28]") {
  CHECK(yaml_error("a: 1\nb: 2\na: 3\n") == "x.yaml:3: a is given twice, first on line 1");
  CHECK(yaml_error("model:\n  lr: 1\n\n  lr: 1\n") == "x.yaml:4: model.lr is given twice, first on line 2");
  CHECK(yaml_error("train:\n  lr: 1\nmodel:\n  a: 1\ntrain:\n  lr: 1\n") ==
        "x.yaml:5: train is given twice, first on line 1");
  CHECK(yaml_error("a: {b: 1, b: 2}\n") == "x.yaml:1: a.b is given twice, first on line 1");
  CHECK(yaml_error("a: 1\n'a': 2\n") == "x.yaml:2: a is given twice, first on line 1");
  CHECK(yaml_error("l: [{b: 1,\n b: 2}]\n") == "x.yaml:2: l.b is given twice, first on line 1");
  CHECK(yaml_error("a: {b: 1}\nc: {b: 1}\n") == "no error");
}

TEST_CASE("anchors, aliases, merge keys and tags are refused", "[config][C30]") {
  const std::string no_aliases = "anchors and aliases (&name, *name) are not supported; write the values out";
  CHECK(yaml_error("a: 1\nb: *base\n") == "x.yaml:2: " + no_aliases);
  CHECK(yaml_error("a: &base 1\nb: *base\n") == "x.yaml:1: " + no_aliases);
  CHECK(yaml_error("a: &base\n  c: 1\nb:\n  <<: *base\n") == "x.yaml:1: " + no_aliases);
  CHECK(yaml_error("a: &base\n") == "x.yaml:1: " + no_aliases);
  CHECK(yaml_error("a: &base [*base]\n") == "x.yaml:1: " + no_aliases);
  CHECK(yaml_error("a: 1\n<<: *base\n") == "x.yaml:2: merge keys (<<) are not supported; write the values out");
  CHECK(yaml_error("<<: {a: 1}\n") == "x.yaml:1: merge keys (<<) are not supported; write the values out");
  for (const char* text : {"a: !!int 3\n", "a: !mine x\n", "a: !!str\n", "a: ! x\n", "a: !!map {b: 1}\n"}) {
    INFO(text);
    CHECK(yaml_error(text) == "x.yaml:1: tags (!name) are not supported; for text use quotes");
  }
}

TEST_CASE("keys are plain text", "[config]") {
  CHECK(yaml_error("? [a]\n: b\n") ==
        "x.yaml:1: a key has to be plain text, found a list or a map (a bracket never closed?)");
  CHECK(yaml_error("{a: 1}: b\n") ==
        "x.yaml:1: a key has to be plain text, found a list or a map (a bracket never closed?)");
  CHECK(yaml_error("'': 1\n") == "x.yaml:1: a key is empty");
  CHECK(yaml_error("a: 1\n: 1\n") == "x.yaml:2: a key is empty");
  CHECK(yaml_error("~: 1\n") == "x.yaml:1: a key is empty");
}

TEST_CASE("tabs as indentation are refused", "[config][C30]") {
  CHECK(yaml_error("a:\n\tb: 1\n") == "x.yaml:2: a tab in the indentation; use spaces");
  CHECK(yaml_error("a:\n  \tb: 1\n") == "x.yaml:2: a tab in the indentation; use spaces");
  CHECK(yaml_error("\ta: 1\n") == "x.yaml:1: a tab in the indentation; use spaces");
}

TEST_CASE("bytes that are no text are refused with their line", "[config][C15]") {
  CHECK(yaml_error("a: 1\nb: \xE9t\xE9\n") == "x.yaml:2: not UTF-8 text (byte 0xE9)");
  CHECK(yaml_error("a: \xC3") == "x.yaml:1: not UTF-8 text (byte 0xC3)");
  CHECK(yaml_error("a: \xC0\x80") == "x.yaml:1: not UTF-8 text (byte 0xC0)");
  CHECK(yaml_error("a: \xE0\x80\x80") == "x.yaml:1: not UTF-8 text (byte 0xE0)");
  CHECK(yaml_error("a: \xED\xA0\x80") == "x.yaml:1: not UTF-8 text (byte 0xED)");
  CHECK(yaml_error("a: \xF4\x90\x80\x80") == "x.yaml:1: not UTF-8 text (byte 0xF4)");
  CHECK(yaml_error("\xFF\xFE"
                   "a\0:\0") == "x.yaml:1: not UTF-8 text (byte 0xFF)");
  CHECK(yaml_error(std::string("a: 1\nb: \0\n", 10)) == "x.yaml:2: a control character (0x00)");
  CHECK(yaml_error("a: 1\n\nb: x\x04y\n") == "x.yaml:3: a control character (0x04)");
  CHECK(yaml_error("a: \x7F\n") == "x.yaml:1: a control character (0x7F)");
  CHECK(yaml_error("a: 1\rb: 2\n") == "x.yaml:1: a carriage return (0x0D) without a line feed");
  CHECK(yaml_error("a: \"x\\0y\"\n") == "x.yaml:1: a value holds a NUL character");
  CHECK(yaml_error("a: \"\\N\"\n") == "x.yaml:1: the escapes \\N and \\_ are not supported; write \\u0085 and \\u00a0");
  CHECK(text_at(parse_yaml("a: \"\\u0085\\u00a0\\u2028\"\n", "x"), "a") == "\xC2\x85\xC2\xA0\xE2\x80\xA8");
}

TEST_CASE("one document, and not an empty one", "[config][C30]") {
  CHECK(yaml_error("") == "x.yaml: the file is empty; expected 'key: value' lines");
  CHECK(yaml_error("# only a comment\n\n") == "x.yaml: the file is empty; expected 'key: value' lines");
  CHECK(yaml_error("\xEF\xBB\xBF") == "x.yaml: the file is empty; expected 'key: value' lines");
  CHECK(yaml_error("a: 1\n---\nb: 2\n") == "x.yaml:2: expected one document, but a second one starts here");
  CHECK(yaml_error("a: 1\n...\nb\n") == "x.yaml:3: expected one document, but a second one starts here");
}

TEST_CASE("nesting has a limit", "[config]") {
  CHECK(yaml_error("a: " + std::string(60, '[') + std::string(60, ']')) == "no error");
  const std::string deep = "x.yaml:1: nested deeper than 64 levels";
  CHECK(yaml_error("a: " + std::string(64, '[') + std::string(64, ']')) == deep);
  CHECK(yaml_error(std::string(100000, '[') + std::string(100000, ']')) == deep);
  std::string maps;
  for (int i = 0; i < 70; ++i) maps += "{a: ";
  CHECK(yaml_error(maps + std::string(70, '}')) == deep);
}

TEST_CASE("broken YAML is refused with its line", "[config]") {
  CHECK(yaml_error("a: 1\nb: x: y\n") ==
        "x.yaml:2: not valid YAML: a ':' where no value can stand (indentation? quotes around text "
        "with ': '?)");
  CHECK(yaml_error("a:\n    b: 1\n  c: 2\n") ==
        "x.yaml:3: not valid YAML: the map ends here (indentation? 'key: value'?)");
  CHECK(yaml_error("a: [1, 2\nb: 3\n").substr(0, 27) == "x.yaml:2: not valid YAML: e");
  CHECK(yaml_error("a: 1\nb: 'open\nc: 2\n") == "x.yaml:2: the quote (') that opens here is never closed");
  CHECK(yaml_error("a: 1\nb: \"open\nc: 2\n").substr(0, 8) == "x.yaml:2");
  CHECK(yaml_error("'a': 'it''s\n") == "x.yaml:1: the quote (') that opens here is never closed");
  CHECK(yaml_error("a: \"\\ud800\"\n").substr(0, 26) == "x.yaml:1: not valid YAML: ");
}

TEST_CASE("files that are no configuration are named", "[config][C32]") {
  const auto error_of_file = [](const std::filesystem::path& path) -> std::string {
    try {
      load_yaml(path);
    } catch (const fovea::Error& error) {
      CHECK(error.kind() == fovea::ErrorKind::kUsage);
      return error.what();
    }
    return "no error";
  };
  const TempDir dir;
  const std::string folder = dir.path().string();
  CHECK(error_of_file(folder + "/none.yaml") == folder + "/none.yaml: no such file; expected a YAML configuration");
  CHECK(error_of_file(folder) == folder + ": a folder; expected a YAML file");
  std::ofstream(folder + "/big.yaml") << std::string((1 << 20) + 1, '#');
  CHECK(error_of_file(folder + "/big.yaml") ==
        folder + "/big.yaml: expected at most 1048576 bytes of data, found more");
  std::ofstream(folder + "/good.yaml") << "a: 1\n";
  CHECK(text_at(load_yaml(folder + "/good.yaml"), "a") == "1");
}

TEST_CASE("texts in messages are short, on one line and printable", "[config]") {
  CHECK(quote("a\nb\tc\x1B[31m") == "'a\\nb\\tc\\x1b[31m'");
  CHECK(quote(std::string(100, 'x')) == "'" + std::string(60, 'x') + "...'");
  CHECK(quote(std::string(59, 'x') + "\xC3\xA9") == "'" + std::string(59, 'x') + "...'");
}
