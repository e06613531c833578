#include "fovea/data/tokenizer.h"

#include <algorithm>

#include "fovea/config/dump.h"
#include "fovea/config/explain.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/tasks/translation/config.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;

namespace {

using Ids = std::vector<int64_t>;

data::TokenizerChoice choice_of(const std::string& name) {
  data::TokenizerChoice choice;
  for (const auto& entry : data::all_tokenizers()) {
    if (entry.named.name == name) choice.named = {name, entry.named.make()};
  }
  REQUIRE(choice.named.name == name);
  return choice;
}

std::shared_ptr<const data::Tokenizer> learnt(const std::string& name, const std::vector<std::string>& texts,
                                              const data::TokenizerOptions& options = {}) {
  return data::make_tokenizer(choice_of(name), options, texts);
}

// Texts that normalizing leaves as they are.
const std::vector<std::string> kTexts = {
    "it's cold in spain.",
    "ça va ? « oui », dit-il : 3,5 €…",
    "Привет, мир! Ελληνικά",
    "日本語のテキスト。改行なし",
    "مرحبا بالعالم שלום",
    "नमस्ते दुनिया क्षत्रिय",
    "👩‍👩‍👧‍👦 und 🏳️‍🌈 👍🏽 🇩🇪",
    "x\u0323\u0301 q\u0308 — e\u20dd",
    "a\u00adb \u200bc d\u200d",
    "<eos> <pad><bos> <unk>",
    "\\n \\x0a \\\\ \x01\x02 \x7f",
    "🅰",
};

}  // namespace

TEST_CASE("characters: any text comes back exactly, a run of white space as one space", "[tokenizer]") {
  const auto cased = learnt("characters", kTexts, {.text = {.lowercase = false, .unify = false}});
  const auto unified = learnt("characters", kTexts, {.text = {.lowercase = false}});
  for (const auto& text : kTexts) {
    INFO(text);
    CHECK(unified->decode(unified->encode(text)) == data::unify_characters(text));  // C55
    const Ids ids = cased->encode(text);
    CHECK(cased->decode(ids) == text);
    CHECK(std::none_of(ids.begin(), ids.end(), [&](int64_t id) { return cased->is_reserved(id); }));
    CHECK(cased->encode("  " + text + "\t\u00a0") == ids);
  }
  CHECK(cased->encode("a  b").size() == 3);
  CHECK(cased->token(cased->encode("a\u2028b")[1]) == " ");
  CHECK(cased->encode("e\u0301") == Ids{cased->unk()});  // composed, and unknown
  CHECK(cased->encode(" \t\u3000").empty());
  CHECK(cased->encode("").empty());
  CHECK_THROWS_AS(cased->encode("a\xff"), Error);

  // Lower-cased text is encoded to the same ids again, also where only the small letter has a composed form.
  const std::vector<std::string> capitals = {"J\u030C", "İSTANBUL ΣΑΣ", "ÉCOLE", "Ⅷ ẞ"};
  const auto lower = learnt("characters", capitals);
  for (const auto& text : capitals) {
    const Ids ids = lower->encode(text);
    CHECK(lower->encode(lower->decode(ids)) == ids);
  }
  CHECK(lower->decode(lower->encode("J\u030C ÉCOLE")) == "\u01F0 école");
}

TEST_CASE("words: tokens come back as text", "[tokenizer]") {
  const auto words = learnt("words", {"Go now.", "Va !", "L'école, oui?"});
  CHECK(words->decode(words->encode("  GO   now .")) == "go now.");
  CHECK(words->decode(words->encode("l'École,oui ?")) == "l'école <unk>?");  // ",oui" is one token in d2l
  CHECK(words->encode("go never now") == Ids{words->id("go"), words->unk(), words->id("now")});
  CHECK(words->encode("").empty());
  CHECK(words->describe() == "13 words");
}

TEST_CASE("words give the ids of version 0.1", "[tokenizer]") {
  // What version 0.1 wrote for this corpus, with num_steps: 5, too_long: truncate.
  const std::string file =
      "fovea-vocabulary 1 tokens=19 crc32=da2fb385\nreserved\t<bos>\t<eos>\t<pad>\t<unk>\n!\n.\n<bos>\n<eos>\n<pad>\n"
      "<unk>\nbouge\ncalme\nchez\ncours\nest\nil\nj'ai\nje\nmoi\nperdu\nsalut\nsuis\nva\n";
  const std::vector<std::string> targets = {"Va !",    "Salut !",           "Cours !",      "J'ai perdu.",
                                            "Bouge !", "Je suis chez moi.", "Il est calme."};
  const auto learner = data::TokenizerChoice().learner({});
  for (const auto& target : targets) {
    learner->read(target);
    learner->keep(4);
  }
  const auto words = learner->learn();
  TempDir dir;
  words->save(dir / "target.vocab");
  CHECK(read_bytes(dir / "target.vocab") == file);
  const auto loaded = data::TokenizerChoice().load({}, dir / "target.vocab");
  CHECK(*loaded == *words);
  CHECK(loaded->encode("Je  suis, VA!") == Ids{13, 17, 5, 18, 0});
  CHECK(loaded->encode("Il est chez moi .") == Ids{11, 10, 8, 14, 1});
  CHECK(loaded->bos() == 2);
  CHECK(loaded->eos() == 3);
  CHECK(loaded->pad() == 4);
  CHECK(loaded->unk() == 5);
}

TEST_CASE("a learner counts what is kept, up to a number of tokens", "[tokenizer]") {
  for (const auto& [name, text, most, known, unknown] :
       {std::tuple("words", "one two three", 2, "two", "three"), std::tuple("characters", "abc", 2, "b", "c")}) {
    const auto learner = choice_of(name).learner({});
    CHECK(learner->read(text) == 3);
    learner->keep(most);
    learner->keep();  // kept once
    learner->read("left out");
    const auto tokenizer = learner->learn();
    CHECK(tokenizer->id(known) != tokenizer->unk());
    CHECK(tokenizer->id(unknown) == tokenizer->unk());
    CHECK(tokenizer->size() == 6);
  }
  CHECK(learnt("words", {"a a b"}, {.min_freq = 2})->size() == 5);
  CHECK(learnt("characters", {"aab"}, {.min_freq = 2})->size() == 5);
  CHECK(learnt("characters", {})->size() == 4);
}

TEST_CASE("C20: special tokens in a text cannot end a sequence", "[tokenizer]") {
  const std::string text = "a<eos> <eos> <bos><pad> <pad> b";
  for (const auto& entry : data::all_tokenizers()) {
    INFO(entry.named.name);
    const auto tokenizer = learnt(entry.named.name, {text, text});
    const Ids ids = tokenizer->encode(text);
    for (const int64_t id : {tokenizer->eos(), tokenizer->bos(), tokenizer->pad()}) {
      CHECK(std::count(ids.begin(), ids.end(), id) == 0);
      CHECK(tokenizer->is_reserved(id));
    }
    CHECK(tokenizer->decode(ids).ends_with(" b"));
    Ids longer = ids;
    longer.insert(longer.begin(), tokenizer->bos());
    longer.insert(longer.end(), {tokenizer->eos(), ids[0]});
    CHECK(tokenizer->decode(longer) == tokenizer->decode(ids));
    CHECK_THROWS_AS(tokenizer->decode({tokenizer->size()}), Error);
    CHECK_THROWS_AS(tokenizer->token(-1), Error);
  }
}

TEST_CASE("a tokenizer comes back from its file; damage is an error that names it", "[tokenizer]") {
  TempDir dir;
  for (const auto& entry : data::all_tokenizers()) {
    INFO(entry.named.name);
    const auto choice = choice_of(entry.named.name);
    const data::TokenizerOptions cased{.text = {.lowercase = false}};
    const auto tokenizer = learnt(entry.named.name, kTexts, cased);
    tokenizer->save(dir / "side.vocab");
    const auto loaded = choice.load(cased, dir / "side.vocab");
    CHECK(*loaded == *tokenizer);
    CHECK(loaded->name() == entry.named.name);
    for (const auto& text : kTexts) CHECK(loaded->encode(text) == tokenizer->encode(text));
    CHECK_FALSE(*choice.load({}, dir / "side.vocab") == *tokenizer);  // lower-cases
    CHECK_FALSE(*learnt(entry.named.name, {"a"}, cased) == *tokenizer);

    std::string bytes = read_bytes(dir / "side.vocab");
    bytes[bytes.size() - 2] ^= 1;
    write_bytes(dir / "side.vocab", bytes);
    CHECK_THAT(error_of([&] { choice.load(cased, dir / "side.vocab"); }), ContainsSubstring("side.vocab"));
    CHECK_THAT(error_of([&] { choice.load(cased, dir / "none.vocab"); }), ContainsSubstring("none.vocab"));
  }
  const auto words = learnt("words", {"a b"}), characters = learnt("characters", {"ab"});
  CHECK_FALSE(*words == *characters);  // the same tokens

  learnt("words", {"one two"})->save(dir / "words.vocab");
  CHECK_THAT(error_of([&] { choice_of("characters").load({}, dir / "words.vocab"); }),
             ContainsSubstring("words.vocab: expected the vocabulary of a tokenizer of characters, found the token "
                               "\"one\""));
  learnt("characters", {"a b"})->save(dir / "characters.vocab");
  CHECK_THAT(error_of([&] { choice_of("words").load({}, dir / "characters.vocab"); }),
             ContainsSubstring("characters.vocab: expected the vocabulary of a tokenizer of words"));
}

TEST_CASE("data.tokenizer is read, dumped and explained; without it there are words", "[tokenizer]") {
  const auto read = [](const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    translation::TranslationConfig config;
    config::Node document = config::parse_yaml(yaml, "data.yaml");
    for (const auto& argument : overrides) config::apply_override(document, argument);
    config::read(config, document);
    return config;
  };
  CHECK(read("path: a").tokenizer.named.name == "words");
  CHECK(read("{path: a, tokenizer: {name: characters}}").tokenizer.named.name == "characters");
  CHECK(read("path: a", {"tokenizer.name=characters"}).tokenizer.named.name == "characters");
  CHECK(read("{path: a, tokenizer: {name: characters}}", {"tokenizer.name=words"}).tokenizer.named.name == "words");
  CHECK(config::dump(translation::TranslationConfig()) == config::dump(translation::TranslationConfig()));

  const std::string dumped = config::dump(read("path: /a", {"tokenizer.name=characters"}));
  CHECK_THAT(dumped, ContainsSubstring("tokenizer:\n  name: characters\n"));
  CHECK(config::dump(read(dumped)) == dumped);
  const auto changes = config::differences(read("path: /a"), read(dumped));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].key == "tokenizer.name");

  CHECK_THAT(error_of([&] { read("{path: a, tokenizer: {name: character}}"); }),
             ContainsSubstring("tokenizer.name") && ContainsSubstring("one of words, characters") &&
                 ContainsSubstring("characters"));
  CHECK_THAT(error_of([&] { read("{path: a, tokenizer: characters}"); }),
             ContainsSubstring("write tokenizer: {name: characters}"));
  CHECK_THAT(error_of([&] { read("{path: a, tokenizer: {name: words, vocab_size: 9}}"); }),
             ContainsSubstring("tokenizer.vocab_size: unknown key"));

  struct Experiment : config::Section {
    config::Named data;
    void fields(config::Fields& f) override {
      f.named("data", data,
              {{"translation", "pairs", [] { return std::make_shared<translation::TranslationConfig>(); }}},
              "what it learns from");
    }
  };
  // A name within a name is explained with the outer one, too.
  for (const std::string about : {"translation", "data.tokenizer"}) {
    const std::string nested = config::explain_table(Experiment(), about);
    CHECK_THAT(nested, ContainsSubstring("data.tokenizer.name = characters: "));
    CHECK((nested.find("data.min_freq") != std::string::npos) == (about == "translation"));
  }

  const std::string explained = config::explain_table(translation::TranslationConfig(), "tokenizer");
  CHECK_THAT(explained, ContainsSubstring("tokenizer.name   one of words, characters   words"));
  for (const auto& entry : data::all_tokenizers()) {
    CHECK_THAT(explained,
               ContainsSubstring("tokenizer.name = " + entry.named.name + ": " + entry.named.summary + "\n"));
  }
}
