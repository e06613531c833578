#include "fovea/config/read.h"

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/config/config_sections.h"

using namespace fovea::config;
using sections::Everything;
using sections::Experiment;

namespace {

const std::string kGood = "model: {name: transformer}\ndata: {path: a.tsv}\n";  // two lines

template <typename T>
std::string error_in(const std::string& text, const std::vector<std::string>& arguments = {}) {
  try {
    Node root = parse_yaml(text, "x.yaml");
    for (const std::string& argument : arguments) apply_override(root, argument);
    T section;
    read(section, root);
  } catch (const fovea::Error& error) {
    CHECK(error.kind() == fovea::ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

// The error of an experiment whose third line is `line`, or of an argument.
std::string line_error(const std::string& line) {
  return error_in<Experiment>(kGood + line + "\n");
}
std::string argument_error(const std::string& argument) {
  return error_in<Experiment>(kGood, {argument});
}

Everything everything(const std::string& text) {
  Everything result;
  read(result, parse_yaml(text, "x.yaml"));
  return result;
}

}  // namespace

TEST_CASE("every type of setting is read", "[config]") {
  const Everything e = everything(
      "flag: false\ncount: 9223372036854775807\nrate: 1E-3\ntext: no\nfile: sub/../f.tsv\n"
      "maybe_flag: true\nmaybe_count: 9\nmaybe_rate: .001\nmaybe_text: ''\nmaybe_file: /abs/f\n"
      "counts: [0, 10]\nrates: [1, 1e-3]\ntexts: [no, 1, 'a, b']\nfiles: [a, /b]\n"
      "colour: green\ncolours: [red, red]\nshare: 1\nnothing: {}\nmodel: {name: nothing}\n");
  CHECK_FALSE(e.flag);
  CHECK(e.count == 9223372036854775807);
  CHECK(e.rate == 1e-3);
  CHECK(e.text == "no");
  CHECK(e.file == std::filesystem::current_path() / "f.tsv");
  CHECK(e.maybe_flag == true);
  CHECK(e.maybe_count == 9);
  CHECK(e.maybe_rate == 1e-3);
  CHECK(e.maybe_text == "");
  CHECK(e.maybe_file == "/abs/f");
  CHECK(e.counts == std::vector<int64_t>{0, 10});
  CHECK(e.rates == std::vector{1.0, 1e-3});
  CHECK(e.texts == std::vector<std::string>{"no", "1", "a, b"});
  CHECK(e.files == std::vector<std::filesystem::path>{std::filesystem::current_path() / "a", "/b"});
  CHECK(e.colour == "green");
  CHECK(e.model.name == "nothing");
}

TEST_CASE("what is not given keeps its default", "[config]") {
  const Everything e = everything("{}\n");
  CHECK(e.flag);
  CHECK(e.text == "a b");
  CHECK_FALSE(e.maybe_count);
  CHECK(e.model.as<sections::Gru>().num_hiddens == 32);
  CHECK_THROWS_WITH(e.model.as<sections::Transformer>(),
                    "the section named 'gru' is not of the type that is asked for");
}

TEST_CASE("a run that is older than a key has the value of then", "[config]") {
  struct Younger : Section {
    bool flag = true;
    int64_t count = 3;
    void fields(Fields& f) override {
      f("flag", flag, "", formerly("false"));
      f("count", count, "");
    }
  };
  const auto flag_of = [](const std::string& yaml, Document whose) {
    Younger section;
    read(section, parse_yaml(yaml, "x.yaml"), whose);
    CHECK(section.count == 4);
    return section.flag;
  };
  CHECK(flag_of("count: 4", Document::kUsers));
  CHECK_FALSE(flag_of("count: 4", Document::kRuns));
  CHECK(flag_of("{count: 4, flag: true}", Document::kRuns));
}

TEST_CASE("null unsets what is optional and is refused elsewhere", "[config][C30]") {
  Everything e;
  e.maybe_rate = 3;
  read(e, parse_yaml("maybe_rate: null\n", "x"));
  CHECK_FALSE(e.maybe_rate);
  CHECK(line_error("train:\n  lr:") == "x.yaml:4: train.lr: has no value; expected a number above 0");
  CHECK(line_error("train: {lr: ~}") == "x.yaml:3: train.lr: has no value; expected a number above 0");
  CHECK(argument_error("train.lr=") == "argument 'train.lr=': train.lr: has no value; expected a number above 0");
  CHECK(argument_error("data.language=null") ==
        "argument 'data.language=null': data.language: has no value; expected text");
  CHECK(error_in<Everything>("texts: [a,, b]\n") == "x.yaml:1: texts[1]: expected text, found nothing");
  CHECK(error_in<Everything>("counts:\n") ==
        "x.yaml:1: counts: has no value; expected a non-empty list of whole numbers, each from 0 "
        "to 10");
}

TEST_CASE("numbers of the wrong kind are refused with key, value and range", "[config][C29]") {
  const std::string epochs = "train.max_epochs: expected a whole number from 1 to 1000000, found ";
  CHECK(line_error("train: {max_epochs: 3 epochs}") == "x.yaml:3: " + epochs + "'3 epochs' (text follows the number)");
  CHECK(line_error("train: {max_epochs: 3.5}") == "x.yaml:3: " + epochs + "'3.5' (it has a fraction)");
  CHECK(line_error("train: {max_epochs: 1e3}") == "x.yaml:3: " + epochs + "'1e3' (write 1000)");
  CHECK(line_error("train: {max_epochs: 010}") == "x.yaml:3: " + epochs + "'010' (write it without leading zeros)");
  CHECK(line_error("train: {max_epochs: 0}") == "x.yaml:3: " + epochs + "'0'");
  CHECK(line_error("train: {max_epochs: 1000001}") == "x.yaml:3: " + epochs + "'1000001'");
  CHECK(line_error("train: {max_epochs: -1}") == "x.yaml:3: " + epochs + "'-1'");
  CHECK(line_error("train: {max_epochs: '3'}") == "x.yaml:3: " + epochs + "'3' in quotes; remove the quotes");
  CHECK(line_error("train: {max_epochs: 'x'}") == "x.yaml:3: " + epochs + "'x' in quotes");
  CHECK(line_error("train: {max_epochs: true}") == "x.yaml:3: " + epochs + "'true' (it is not a number)");
  CHECK(line_error("train: {max_epochs: [3]}") == "x.yaml:3: " + epochs + "a list");
  CHECK(line_error("train: {max_epochs: {a: 3}}") == "x.yaml:3: " + epochs + "a map (keys below it)");
  const std::string lr = "x.yaml:3: train.lr: expected a number above 0, found ";
  CHECK(line_error("train: {lr: -0.1}") == lr + "'-0.1'");
  CHECK(line_error("train: {lr: 0}") == lr + "'0'");
  CHECK(line_error("train: {lr: 1e400}") == lr + "'1e400' (it is too large for a double)");
  CHECK(line_error("train: {lr: nan}") == lr + "'nan' (it is not a finite number)");
  CHECK(line_error("train: {lr: .inf}") == lr + "'.inf' (it is not a finite number)");
  CHECK(line_error("train: {lr: 0,001}") ==
        "x.yaml:3: train.001: unknown key; known keys: lr, max_epochs, max_minutes, "
        "betas, schedule");
  const std::string dropout = "model.dropout: expected a number of at least 0 and below 1, found ";
  CHECK(argument_error("model.dropout=1") == "argument 'model.dropout=1': " + dropout + "'1'");
  CHECK(argument_error("model.dropout=-0.1") == "argument 'model.dropout=-0.1': " + dropout + "'-0.1'");
  CHECK(argument_error("model.dropout=0.999") == "no error");
  CHECK(argument_error("seed=-1") == "argument 'seed=-1': seed: expected a whole number of at least 0, found '-1'");
  CHECK(error_in<Everything>("share: 0\n") == "x.yaml:1: share: expected a number above 0 and at most 1, found '0'");
  CHECK(error_in<Everything>("maybe_count: 10\n") ==
        "x.yaml:1: maybe_count: expected a whole number from 1 to 9 or null, found '10'");
}

TEST_CASE("booleans are true and false; other words stay text", "[config][C31]") {
  const std::string flag = "x.yaml:1: flag: expected true or false, found ";
  CHECK(error_in<Everything>("flag: no\n") == flag + "'no'; write false");
  CHECK(error_in<Everything>("flag: yes\n") == flag + "'yes'; write true");
  CHECK(error_in<Everything>("flag: On\n") == flag + "'On'; write true");
  CHECK(error_in<Everything>("flag: True\n") == flag + "'True'; write true");
  CHECK(error_in<Everything>("flag: 0\n") == flag + "'0'; write false");
  CHECK(error_in<Everything>("flag: 'true'\n") == flag + "'true' in quotes; remove the quotes");
  CHECK(error_in<Everything>("flag: maybe\n") == flag + "'maybe'");
  CHECK(error_in<Everything>("maybe_flag: off\n") ==
        "x.yaml:1: maybe_flag: expected true or false or null, found 'off'; write false");
  CHECK(everything("text: off\n").text == "off");
}

TEST_CASE("lists and maps stand where they are due", "[config][C30]") {
  CHECK(error_in<Everything>("rates: 0.9\n") ==
        "x.yaml:1: rates: expected a list of numbers, found '0.9'; write [0.9]");
  CHECK(error_in<Everything>("text: [a]\n") == "x.yaml:1: text: expected text, found a list");
  CHECK(error_in<Everything>("counts: []\n") ==
        "x.yaml:1: counts: expected a non-empty list of whole numbers, each from 0 to 10, found 0 "
        "items");
  CHECK(error_in<Everything>("counts:\n- 1\n- 11\n") ==
        "x.yaml:3: counts[1]: expected a whole number from 0 to 10, found '11'");
  CHECK(error_in<Everything>("colours: [red, blue]\n") ==
        "x.yaml:1: colours[1]: expected one of red, green, found 'blue'");
  CHECK(line_error("train: {betas: [0.9]}") ==
        "x.yaml:3: train.betas: expected a list of 2 numbers, each of at least 0 and below 1, "
        "found 1 item");
  CHECK(line_error("train: [lr]") == "x.yaml:3: train: expected a map (key: value), found a list");
  CHECK(line_error("train: fast") == "x.yaml:3: train: expected a map (key: value), found 'fast'");
  CHECK(line_error("train:") == "x.yaml:3: train: has no keys; expected a map, or no such line");
  CHECK(error_in<Experiment>("- a\n") == "x.yaml:1: expected a map ('key: value' lines), found a list");
  CHECK(error_in<Experiment>("Go.\n") == "x.yaml:1: expected a map ('key: value' lines), found 'Go.'");
  CHECK(error_in<Experiment>("---\n") == "x.yaml:2: the file is empty; expected 'key: value' lines");
}

TEST_CASE("unknown keys are refused and the one that was meant is named", "[config][C30]") {
  CHECK(error_in<Experiment>("model:\n  name: transformer\n  num_head: 8\n") ==
        "x.yaml:3: model.num_head: unknown key; did you mean 'num_heads'?");
  CHECK(argument_error("model.num_head=4") ==
        "argument 'model.num_head=4': model.num_head: unknown key; did you mean 'num_heads'?");
  CHECK(argument_error("model.droput=0.1") ==
        "argument 'model.droput=0.1': model.droput: unknown key; did you mean 'dropout'?");
  CHECK(argument_error("mdoel.lr=1") == "argument 'mdoel.lr=1': mdoel: unknown key; did you mean 'model'?");
  CHECK(line_error("lr: 0.1") == "x.yaml:3: lr: unknown key; did you mean 'train.lr'?");
  CHECK(line_error("warmup_steps: 1") ==
        "x.yaml:3: warmup_steps: unknown key; did you mean 'train.schedule.warmup_steps'?");
  CHECK(line_error("train: {seed: 1}") == "x.yaml:3: train.seed: unknown key; did you mean 'seed'?");
  CHECK(line_error("train.lr: 1") == "x.yaml:3: train.lr: unknown key; in a file, write lr below train");
  CHECK(line_error("name: x") == "x.yaml:3: name: unknown key; did you mean 'model.name'?");
  CHECK(line_error("zzz: 1") == "x.yaml:3: zzz: unknown key; known keys: seed, model, data, train");
  CHECK(line_error("train: {schedule: {zzz: 1}}") ==
        "x.yaml:3: train.schedule.zzz: unknown key; known keys: kind, warmup_steps");
  CHECK(error_in<Everything>("nothing: {a: 1}\n") == "x.yaml:1: nothing.a: unknown key; no keys are known here");
}

TEST_CASE("a name decides which keys there are", "[config]") {
  const std::string data = "data: {path: a}\n";
  CHECK(error_in<Experiment>(data + "model:\n  name: transformer\n  bidirectional: true\n") ==
        "x.yaml:4: model.bidirectional: unknown key for the name 'transformer'; it belongs to 'gru'");
  CHECK(error_in<Experiment>(data + "model: {name: transformer, dropout: 0}\n", {"model.name=gru"}) ==
        "x.yaml:2: model.dropout: unknown key for the name 'gru'; it belongs to 'transformer'");
  const std::string one_of = "expected one of transformer, gru, nothing";
  CHECK(error_in<Experiment>(data) == "x.yaml: model.name: is required, but not given; " + one_of);
  CHECK(error_in<Experiment>(data + "model: {dropout: 0}\n") ==
        "x.yaml:2: model.name: is required, but not given; " + one_of);
  CHECK(error_in<Experiment>(data, {"model.dropout=0"}) == "x.yaml: model.name: is required, but not given; " + one_of);
  CHECK(error_in<Experiment>(data + "model: {name: transfromer}\n") ==
        "x.yaml:2: model.name: " + one_of + ", found 'transfromer'; did you mean 'transformer'?");
  CHECK(error_in<Experiment>(data + "model: {name: }\n") == "x.yaml:2: model.name: has no value; " + one_of);
  CHECK(error_in<Experiment>(data + "model: gru\n") ==
        "x.yaml:2: model: expected a map with a name (key: value), found 'gru'; write model: "
        "{name: gru}");
  CHECK(error_in<Experiment>(data + "model: [gru]\n") ==
        "x.yaml:2: model: expected a map with a name (key: value), found a list");
  CHECK(error_in<Experiment>(data + "model:\n") ==
        "x.yaml:2: model: has no keys; expected a map with a name, or no such line");
  Everything e = everything("model: {name: transformer, num_heads: 8}\n");
  CHECK(e.model.as<sections::Transformer>().num_heads == 8);
}

TEST_CASE("required keys are asked for where they should stand", "[config][C30]") {
  const std::string model = "model: {name: gru}\n";
  const std::string missing = "data.path: is required, but not given; expected a file path";
  CHECK(error_in<Experiment>(model) == "x.yaml: " + missing);
  CHECK(error_in<Experiment>(model + "data:\n  language: fr\n") == "x.yaml:2: " + missing);
  CHECK(error_in<Experiment>(model, {"data.language=fr"}) == "x.yaml: " + missing);
  CHECK(error_in<Experiment>(model + "data: {path: ''}\n") ==
        "x.yaml:2: data.path: expected a file path, found '' in quotes");
}

TEST_CASE("paths are relative to where they stand", "[config][C32]") {
  const auto path_of = [](const std::string& text, const std::string& file, const std::string& argument) {
    Node root = parse_yaml(text, file);
    if (!argument.empty()) apply_override(root, argument);
    Experiment experiment;
    read(experiment, root);
    return experiment.data.path;
  };
  const auto here = std::filesystem::current_path();
  const std::string text = "model: {name: gru}\ndata: {path: ../d/a.tsv}\n";
  CHECK(path_of(text, "configs/x.yaml", "") == here / "d/a.tsv");
  CHECK(path_of(text, "/etc/fovea/x.yaml", "") == "/etc/d/a.tsv");
  CHECK(path_of(text, "/etc/fovea/x.yaml", "data.path=b.tsv") == here / "b.tsv");
  CHECK(path_of(text, "/etc/fovea/x.yaml", "data.path=/b.tsv") == "/b.tsv");
  CHECK(path_of("model: {name: gru}\ndata: {path: 'x: y.tsv'}\n", "x", "") == here / "x: y.tsv");
}

TEST_CASE("checks name the place of a value, or that it is the default", "[config][C09]") {
  const std::string message = "num_heads must divide num_hiddens, found ";
  const std::string model = "data: {path: a}\nmodel:\n  name: transformer\n";
  CHECK(error_in<Experiment>(model + "  num_hiddens: 31\n") == "x.yaml:4: model.num_hiddens: " + message + "4 and 31");
  CHECK(error_in<Experiment>(model + "  num_hiddens: 30\n  num_heads: 7\n") ==
        "x.yaml:5: model.num_heads: " + message + "7 and 30");
  CHECK(error_in<Experiment>(model + "  num_heads: 4\n", {"model.num_hiddens=30"}) ==
        "argument 'model.num_hiddens=30': model.num_hiddens: " + message + "4 and 30");
  CHECK(error_in<Experiment>(model, {"train.max_epochs=999"}) ==
        "argument 'train.max_epochs=999': train.max_epochs: must not be 999");

  const Node document = parse_yaml("model: {name: gru}\n", "x.yaml");
  const Checker checker(document);
  CHECK(checker.given("model.name"));
  CHECK_FALSE(checker.within("model").given("num_heads"));
  CHECK_THROWS_WITH(checker.within("model").fail("num_heads", "is {}", 3), "x.yaml: model.num_heads (default): is 3");
  CHECK_THROWS_WITH(Checker(Node{}).fail("seed", "is odd"), "seed (default): is odd");
}

TEST_CASE("mistakes in declarations are found", "[config]") {
  struct Twice : Section {
    int64_t a = 0;
    void fields(Fields& f) override {
      f("a", a, "once");
      f("a", a, "twice");
    }
  } twice;
  CHECK_THROWS_WITH(read(twice, parse_yaml("a: 1\n", "x")), "the setting 'a' is declared twice");
}
