#include "fovea/config/dump.h"

#include <limits>
#include <string>
#include <vector>

#include "fovea/config/read.h"
#include "fovea/config/value.h"
#include "tests/catch.h"
#include "tests/config/config_sections.h"

using namespace fovea::config;
using sections::Everything;
using sections::Experiment;

namespace {

template <typename T>
T read_text(const std::string& text) {
  T section;
  read(section, parse_yaml(text, "x.yaml"));
  return section;
}

}  // namespace

TEST_CASE("a dump is YAML in the order of declaration, with absolute paths", "[config]") {
  const auto experiment = read_text<Experiment>(
      "train: {lr: 1e-4}\ndata: {path: /d/a b.tsv, language: no}\nmodel: {name: transformer, "
      "num_heads: 8}\n");
  CHECK(dump(experiment) == R"(seed: 0
model:
  name: transformer
  num_hiddens: 256
  num_heads: 8
  dropout: 0.2
  attention: plain
data:
  path: "/d/a b.tsv"
  language: "no"
train:
  lr: 0.0001
  max_epochs: 10
  max_minutes: null
  betas: [0.9, 0.999]
  schedule:
    kind: constant
    warmup_steps: 0
)");
}

TEST_CASE("dump, read, dump gives the same again", "[config]") {
  const auto is_stable = [](const Everything& e) {
    const std::string once = dump(e);
    INFO(once);
    Everything again;
    read(again, parse_yaml(once, "/elsewhere/y.yaml"));
    CHECK(dump(again) == once);
    CHECK(differences(e, again).empty());
  };
  is_stable(read_text<Everything>("{}\n"));
  Everything e = read_text<Everything>("model: {name: transformer}\n");
  e.flag = false;
  e.count = std::numeric_limits<int64_t>::min();
  e.rate = 0.1 + 0.2;
  e.text = "null";
  e.file = "relative/../file";
  e.maybe_flag = true;
  e.maybe_count = 3;
  e.maybe_rate = 5e-324;
  e.maybe_text = "";
  e.maybe_file = "/with space/and#hash: x";
  e.counts = {10};
  e.rates = {1e300, -0.0, 123456789.0};
  e.texts = {"",
             "~",
             "no",
             "010",
             "1e3",
             "a, b",
             "[x]",
             "# c",
             "it's",
             "\"q\"",
             "\\",
             "two\nlines",
             "\ttab",
             "\x01",
             "\x7F",
             "\xC2\x85",
             "\xE2\x80\xA8",
             "\xE2\x80\xA9",
             "\xF0\x9F\x99\x82",
             " ",
             "- a",
             "&a",
             "*a",
             "!a",
             "<<",
             "true",
             "Null",
             "y",
             "...",
             "---",
             "a:",
             "%x",
             "@",
             "`",
             "{}",
             "\xEF\xBB\xBF"};
  e.files = {"/a", "/b c"};
  e.colours = {"green", "red"};
  is_stable(e);
  const std::vector<std::string> texts = e.texts;
  CHECK(read_text<Everything>(dump(e)).texts == texts);
  Everything nothing = read_text<Everything>("model: {name: nothing}\n");
  CHECK_THAT(dump(nothing), ContainsSubstring("nothing: {}\nmodel:\n  name: nothing\n"));
  is_stable(nothing);
}

TEST_CASE("text is quoted where a reader could take it for something else", "[config]") {
  CHECK(yaml_text("plain") == "plain");
  CHECK(yaml_text("/a/b-c_d.tsv") == "/a/b-c_d.tsv");
  CHECK(yaml_text("Yes") == "\"Yes\"");
  CHECK(yaml_text("1") == "\"1\"");
  CHECK(yaml_text("") == "\"\"");
  CHECK(yaml_text("a\"b\\c\n") == "\"a\\\"b\\\\c\\n\"");
  CHECK(yaml_text("\xC3\xA9") == "\"\xC3\xA9\"");
}

TEST_CASE("an empty section and an unnamed one can be dumped", "[config]") {
  CHECK(dump(sections::Nothing()) == "{}\n");
  CHECK_THAT(dump(Experiment()), ContainsSubstring("model: {}\n"));
}

TEST_CASE("settings are listed by their full keys", "[config]") {
  const auto list = settings(read_text<Experiment>("model: {name: gru}\ndata: {path: /a}\n"));
  CHECK(list.front() == KeyValue{"seed", "0"});
  CHECK(list[1] == KeyValue{"model.name", "gru"});
  CHECK(list[3] == KeyValue{"model.bidirectional", "false"});
  CHECK(list.back() == KeyValue{"train.schedule.warmup_steps", "0"});
}

TEST_CASE("differences name keys and both values", "[config][C34]") {
  const std::string data = "data: {path: /a}\n";
  const auto before = read_text<Experiment>(data + "model: {name: gru}\ntrain: {max_epochs: 3}\n");
  const auto after = read_text<Experiment>(data +
                                           "model: {name: transformer}\ntrain: {max_epochs: 5, "
                                           "max_minutes: 2, schedule: {kind: cosine}}\n");
  CHECK(differences(before, before).empty());
  std::vector<std::string> found;
  for (const Difference& d : differences(before, after)) found.push_back(d.key + ": " + d.before + " -> " + d.after);
  CHECK(found == std::vector<std::string>{"model.name: gru -> transformer", "model.num_hiddens: 32 -> 256",
                                          "model.bidirectional: false -> absent", "train.max_epochs: 3 -> 5",
                                          "train.max_minutes: null -> 2", "train.schedule.kind: constant -> cosine",
                                          "model.num_heads: absent -> 4", "model.dropout: absent -> 0.2",
                                          "model.attention: absent -> plain"});
  CHECK(differences(before, after, {"train", "model"}).empty());
  CHECK(differences(before, after, {"train.max", "mod"}).size() == 9);
  CHECK(differences(before, after, {"train.max_epochs", "model"}).size() == 2);
}
