#include <algorithm>
#include <string>
#include <vector>

#include "fovea/config/document.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/config/config_sections.h"

using namespace fovea::config;

namespace {

Node overridden(const std::string& text, const std::vector<std::string>& arguments) {
  Node root = parse_yaml(text, "x.yaml");
  for (const std::string& argument : arguments) apply_override(root, argument);
  return root;
}

std::string override_error(const std::string& text, const std::vector<std::string>& arguments) {
  try {
    overridden(text, arguments);
  } catch (const fovea::Error& error) {
    CHECK(error.kind() == fovea::ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("an argument sets a value and is its origin", "[config]") {
  const Node root = overridden("a:\n  b: 1\n  c: 2\n", {"a.b=3", "d.e.f=x", "g=[1, 'two']"});
  CHECK(root.find_path("a.b")->value.text == "3");
  CHECK(root.find_path("a.b")->key_origin.text() == "argument 'a.b=3'");
  CHECK(root.find_path("a.c")->key_origin.text() == "x.yaml:3");
  CHECK(root.find_path("d.e.f")->value.text == "x");
  REQUIRE(root.find("g")->value.items.size() == 2);
  CHECK(root.find("g")->value.items[1].text == "two");
  CHECK(root.find("g")->value.items[1].origin.text() == "argument 'g=[1, 'two']'");
}

TEST_CASE("the value of an argument is what it seems", "[config]") {
  const auto value_of = [](const std::string& value) { return overridden("a: 1\n", {"k=" + value}).find("k")->value; };
  for (const char* text : {"/a: b#c", "x, y", "*x", "&x", "!x", "- x", "#1", "a=b", "no", "010", "it's", "%x", "@x",
                           "a: 1", "?", "C:\\x", "\xC3\xA9"}) {
    INFO(text);
    CHECK(value_of(text).text == text);
    CHECK_FALSE(value_of(text).quoted);
  }
  CHECK(value_of("  x y ").text == "x y");
  CHECK(value_of("\"null\"").text == "null");
  CHECK(value_of("'a: ''b'").text == "a: 'b");
  CHECK(value_of("''").is_scalar());
  for (const char* text : {"", " ", "null", "~"}) {
    INFO(text);
    CHECK(value_of(text).is_null());
  }
  CHECK(value_of("[]").is_list());
}

TEST_CASE("the later argument wins", "[config][C32]") {
  CHECK(overridden("a: 1\n", {"a=2", "a=3"}).find("a")->value.text == "3");
  CHECK(overridden("a: 1\n", {"a=3", "a=2"}).find("a")->value.text == "2");
  CHECK(overridden("a:\n", {"a.b=1"}).find_path("a.b")->value.text == "1");
}

TEST_CASE("malformed arguments are refused", "[config]") {
  CHECK(override_error("a: 1\n", {"seed"}) == "argument 'seed': expected KEY=VALUE, found no '='");
  CHECK(override_error("a: 1\n", {""}) == "an empty argument; expected KEY=VALUE");
  const std::string empty_key = ": an empty key; expected KEY=VALUE or SECTION.KEY=VALUE";
  for (const char* argument : {"=1", " =1", ".a=1", "b.=1", "b..c=1", ".=1"}) {
    CHECK(override_error("a: 1\n", {argument}) == "argument '" + std::string(argument) + "'" + empty_key);
  }
  CHECK(override_error("a: 1\n", {"a.b=1"}) == "argument 'a.b=1': a holds a value, so it has no key 'b' (x.yaml:1)");
  CHECK(override_error("x:\n  a: [1]\n", {"x.a.b=1"}) ==
        "argument 'x.a.b=1': x.a holds a list, so it has no key 'b' (x.yaml:2)");
  CHECK(override_error("- 1\n", {"a=1"}) ==
        "argument 'a=1': the document holds a list, so it has no key 'a' (x.yaml:1)");
  CHECK(override_error("a: {b: 1}\n", {"a=1"}) == "argument 'a=1': a is a section; set its keys, a.KEY=VALUE");
  CHECK(override_error("a: {b: 1}\n", {"a="}) == "argument 'a=': a is a section; set its keys, a.KEY=VALUE");
  CHECK(override_error("a: 1\n", {"b={c: 1}"}) ==
        "argument 'b={c: 1}': expected a value or a list; set keys one by one, b.KEY=VALUE");
  CHECK(override_error("a: 1\n", {"b=\"c\": 1"}) ==
        "argument 'b=\"c\": 1': expected a value or a list; set keys one by one, b.KEY=VALUE");
  CHECK(override_error("a: 1\n", {"b=[1, 2"}) ==
        "argument 'b=[1, 2': a key has to be plain text, found a list or a map (a bracket never "
        "closed?)");
  CHECK(override_error("a: 1\n", {"b='x"}) == "argument 'b='x': a quote is never closed");
  CHECK(override_error("a: 1\n", {"b=[&x 1, *x]"}) ==
        "argument 'b=[&x 1, *x]': anchors and aliases (&name, *name) are not supported; write the "
        "values out");
  CHECK(override_error("a: 1\n", {"b=\xE9"}) == "argument 'b=\xE9': not UTF-8 text (byte 0xE9)");
  CHECK(override_error("a: 1\n", {"b=[{c: 1, c: 2}]"}) == "argument 'b=[{c: 1, c: 2}]': c is given twice");
}

TEST_CASE("default < file < command line, in any order of arguments", "[config][C32]") {
  std::vector<std::string> arguments = {"train.lr=0.5", "data.path=/d", "model.name=gru", "model.bidirectional=true",
                                        "seed=7"};
  std::sort(arguments.begin(), arguments.end());
  do {
    sections::Experiment experiment;
    read(experiment, overridden("train: {lr: 0.25, max_epochs: 3}\nmodel: {name: transformer}\n", arguments));
    REQUIRE(experiment.train.lr == 0.5);                         // argument over file
    REQUIRE(experiment.train.max_epochs == 3);                   // file over default
    REQUIRE(experiment.train.betas == std::vector{0.9, 0.999});  // default
    REQUIRE(experiment.seed == 7);
    REQUIRE(experiment.model.as<sections::Gru>().bidirectional);
  } while (std::next_permutation(arguments.begin(), arguments.end()));
}
