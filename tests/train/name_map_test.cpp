#include "fovea/train/name_map.h"

#include <ATen/ATen.h>

#include "tests/catch.h"
#include "tests/temp_dir.h"

using fovea::train::NameMap;

namespace {

std::string renamed(const std::string& rules, const std::string& name) {
  return fmt::format("{}", fmt::join(train::NameMap::parse(rules, "map")(name), " "));
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
  CHECK(map("a.x") == std::vector<std::string>{"one"});
  CHECK(map("a.y") == std::vector<std::string>{"two.y"});
  CHECK(map("optimizer.state").empty());
  CHECK(map.unused() == std::vector<std::string>{"a.y = three"});
}

TEST_CASE("a rule that is none is an error with its line") {
  const auto refused = [](const std::string& rule) {
    return error_of([&] { train::NameMap::parse("a = b\n" + rule + "\n", "names.txt"); });
  };
  CHECK_THAT(refused("a b"), ContainsSubstring("names.txt:2: expected 'their.name = our.name', found 'a b'"));
  CHECK_THAT(refused("a ="), ContainsSubstring("a name on the right"));
  CHECK_THAT(refused("a b = c"), ContainsSubstring("one name on the left"));
  CHECK_THAT(refused("a, b = c"), ContainsSubstring("one name on the left"));
  CHECK_THAT(refused("a = b = c"), ContainsSubstring("a name on the right"));
  CHECK_THAT(refused("a = b, , c"), ContainsSubstring("a name on the right"));
  CHECK_THAT(refused("a = b,"), ContainsSubstring("a name on the right"));
  CHECK_THAT(refused("a.* = *.*"), ContainsSubstring("no more stars on the right"));
  CHECK_THAT(refused("\xff = b"), ContainsSubstring("expected UTF-8"));
}

TEST_CASE("a packed weight is shared among names by rows") {
  const std::string rules = "*.in_proj_* = *.W_q.*, *.W_k.*,*.W_v.*";
  CHECK(renamed(rules, "a.in_proj_bias") == "a.W_q.bias a.W_k.bias a.W_v.bias");
  const train::NameMap map = train::NameMap::parse(rules, "map");
  const at::Tensor packed = at::arange(24).view({6, 4});
  const auto shares = map.apply("a.in_proj_weight", packed);
  REQUIRE(shares.size() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(at::equal(shares[static_cast<size_t>(i)].second, packed.narrow(0, 2 * i, 2)));
  }
  CHECK(shares[2].first == "a.W_v.weight");
  CHECK(at::equal(map.apply("b", packed).at(0).second, packed));
  CHECK_THROWS_WITH(map.apply("a.in_proj_bias", at::zeros({4})), ContainsSubstring("among 3 names, found [4]"));
  CHECK_THROWS_WITH(map.apply("a.in_proj_bias", at::zeros({})), ContainsSubstring("among 3 names"));
}
