// Sections for the tests of config: every type of setting, an inner section, a named one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/checker.h"
#include "fovea/config/fields.h"

namespace sections {

namespace config = fovea::config;

struct Transformer : config::Section {
  int64_t num_hiddens = 256;
  int64_t num_heads = 4;
  double dropout = 0.2;
  std::string attention = "plain";

  void fields(config::Fields& f) override {
    f("num_hiddens", num_hiddens, "width of every layer", config::range(1, 65536));
    f("num_heads", num_heads, "heads of every attention layer", config::range(1, 1024));
    f("dropout", dropout, "share of activations set to 0", config::half_open(0, 1));
    f("attention", attention, "how attention is computed", config::choice({"plain", "flash"}));
  }

  void check(const config::Checker& c) const override {
    if (num_hiddens % num_heads != 0) {
      c.fail({"num_heads", "num_hiddens"}, "num_heads must divide num_hiddens, found {} and {}", num_heads,
             num_hiddens);
    }
  }
};

struct Gru : config::Section {
  int64_t num_hiddens = 32;
  bool bidirectional = false;

  void fields(config::Fields& f) override {
    f("num_hiddens", num_hiddens, "width of every layer", config::at_least(1));
    f("bidirectional", bidirectional, "read the source both ways");
  }
};

struct Nothing : config::Section {
  void fields(config::Fields&) override {}
};

inline std::vector<config::NamedEntry> models() {
  return {{"transformer", "attention is all you need", [] { return std::make_shared<Transformer>(); }},
          {"gru", "a recurrent encoder and decoder", [] { return std::make_shared<Gru>(); }},
          {"nothing", "no settings at all", [] { return std::make_shared<Nothing>(); }}};
}

struct Schedule : config::Section {
  std::string kind = "constant";
  int64_t warmup_steps = 0;

  void fields(config::Fields& f) override {
    f("kind", kind, "how the rate changes", config::choice({"constant", "cosine"}));
    f("warmup_steps", warmup_steps, "steps to full rate", config::at_least(0));
  }
};

struct Train : config::Section {
  double lr = 0.001;
  int64_t max_epochs = 10;
  std::optional<double> max_minutes;
  std::vector<double> betas = {0.9, 0.999};
  Schedule schedule;

  void fields(config::Fields& f) override {
    f("lr", lr, "learning rate", config::above(0));
    f("max_epochs", max_epochs, "passes over the data", config::range(1, 1000000));
    f("max_minutes", max_minutes, "stop after so long", config::above(0));
    f("betas", betas, "Adam's averages", config::half_open(0, 1), config::length(2));
    f.section("schedule", schedule, "the rate over time");
  }
};

struct Data : config::Section {
  std::filesystem::path path;
  std::string language = "en";

  void fields(config::Fields& f) override {
    f("path", path, "the corpus", config::required);
    f("language", language, "of the source");
  }
};

struct Experiment : config::Section {
  int64_t seed = 0;
  config::Named model;
  Data data;
  Train train;

  void fields(config::Fields& f) override {
    f("seed", seed, "of all random draws", config::at_least(0));
    f.named("model", model, models(), "what is trained");
    f.section("data", data, "what it is trained on");
    f.section("train", train, "how it is trained");
  }

  void check(const config::Checker& c) const override {
    if (train.max_epochs == 999) c.fail("train.max_epochs", "must not be {}", train.max_epochs);
  }
};

struct Everything : config::Section {
  bool flag = true;
  int64_t count = -3;
  double rate = 0.1;
  std::string text = "a b";
  std::filesystem::path file = "/tmp/x";
  std::optional<bool> maybe_flag;
  std::optional<int64_t> maybe_count;
  std::optional<double> maybe_rate;
  std::optional<std::string> maybe_text;
  std::optional<std::filesystem::path> maybe_file;
  std::vector<int64_t> counts = {1, 2};
  std::vector<double> rates;
  std::vector<std::string> texts = {"x"};
  std::vector<std::filesystem::path> files;
  std::string colour = "red";
  std::vector<std::string> colours;
  double share = 0.5;
  Nothing nothing;
  config::Named model{"gru", nullptr};

  void fields(config::Fields& f) override {
    f("flag", flag, "a switch");
    f("count", count, "a count");
    f("rate", rate, "a rate");
    f("text", text, "a text");
    f("file", file, "a file");
    f("maybe_flag", maybe_flag, "perhaps a switch");
    f("maybe_count", maybe_count, "perhaps a count", config::range(1, 9));
    f("maybe_rate", maybe_rate, "perhaps a rate");
    f("maybe_text", maybe_text, "perhaps a text");
    f("maybe_file", maybe_file, "perhaps a file");
    f("counts", counts, "counts", config::range(0, 10), config::at_least_items(1));
    f("rates", rates, "rates");
    f("texts", texts, "texts");
    f("files", files, "files");
    f("colour", colour, "a colour", config::choice({"red", "green"}));
    f("colours", colours, "colours", config::choice({"red", "green"}));
    f("share", share, "a share", config::above(0, 1));
    f.section("nothing", nothing, "an empty section");
    f.named("model", model, models(), "a model");
  }
};

}  // namespace sections
