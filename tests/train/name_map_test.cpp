#include "fovea/train/name_map.h"

#include "tests/catch.h"
#include "tests/temp_dir.h"

using fovea::train::NameMap;

namespace {

std::string renamed(const std::string& rules, const std::string& name) {
  return train::NameMap::parse(rules, "map")(name).value_or("(none)");
}

}  // namespace

TEST_CASE("names are exact, or have stars") {
  CHECK(renamed("", "a.b") == "a.b");
  CHECK(renamed("a.b = c", "a.b") == "c");
  CHECK(renamed("a.b = c", "a.bb") == "a.bb");
  CHECK(renamed("model.* = *", "model.encoder.W_q.weight") == "encoder.W_q.weight");
  CHECK(renamed("model.* = *", "my.model.x") == "my.model.x");
  CHECK(renamed("enc.layers.*.attn.* = encoder.blks.block*.attention.*", "enc.layers.12.attn.W_q.weight") ==
        "encoder.blks.block12.attention.W_q.weight");
  CHECK(renamed("*.gamma = *.weight", "ln.gamma") == "ln.weight");
  CHECK(renamed("*.gamma = *.weight", "ln.gamma.x") == "ln.gamma.x");
  CHECK(renamed("* = x.*", "") == "x.");
  CHECK(renamed("a*b = c*", "ab") == "c");
  CHECK(renamed("aa*aa = c", "aaa") == "aaa");  // the ends must not overlap
}

TEST_CASE("the first rule counts, - leaves out, comments and blank lines are ignored") {
  const std::string rules = "# ours\n\n  a.x = one   # exact\r\na.* = two.*\na.y = three\noptimizer.* = -\n";
  const train::NameMap map = train::NameMap::parse(rules, "map");
  CHECK(map.unused().size() == 4);
  CHECK(map("a.x") == "one");
  CHECK(map("a.y") == "two.y");
  CHECK_FALSE(map("optimizer.state"));
  CHECK(map.unused() == std::vector<std::string>{"a.y = three"});
}

TEST_CASE("a rule that is none is an error with its line") {
  const auto refused = [](const std::string& rule) {
    return error_of([&] { train::NameMap::parse("a = b\n" + rule + "\n", "names.txt"); });
  };
  CHECK_THAT(refused("a b"), ContainsSubstring("names.txt:2: expected 'their.name = our.name', found 'a b'"));
  CHECK_THAT(refused("a ="), ContainsSubstring("one name on either side"));
  CHECK_THAT(refused("a b = c"), ContainsSubstring("one name on either side"));
  CHECK_THAT(refused("a = b = c"), ContainsSubstring("one name on either side"));
  CHECK_THAT(refused("a.* = *.*"), ContainsSubstring("no more stars on the right"));
  CHECK_THAT(refused("\xff = b"), ContainsSubstring("expected UTF-8"));
}
