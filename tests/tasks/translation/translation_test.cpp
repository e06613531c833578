#include "fovea/tasks/translation/dataset.h"

#include <set>

#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "tests/tasks/translation/print.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;

namespace {

const std::string kCorpus =
    "Go.\tVa !\nHi.\tSalut !\nRun!\tCours !\nI lost.\tJ'ai perdu.\nI'm home.\tJe suis chez moi.\n"
    "He's calm.\tIl est calme.\nGo.\tBouge !\n";

// A config over a corpus in a directory of its own.
struct TinyCorpusData {
  TempDir dir;
  translation::TranslationConfig config;

  TinyCorpusData(const std::string& corpus, const std::string& yaml) {
    write_bytes(dir / "corpus.tsv", corpus);
    write_bytes(dir / "data.yaml", "path: corpus.tsv\n" + yaml);
    config::read(config, config::load_yaml(dir / "data.yaml"));
  }
  translation::TranslationData make() const { return translation::TranslationData(config, 1); }
  int64_t source_tokens() const {
    const auto assets = make().assets();
    return dynamic_cast<const translation::TranslationSpec&>(assets->spec()).source_vocab_size;
  }
};

}  // namespace

TEST_CASE("a batch is d2l's four arrays with their lengths") {
  TinyCorpusData data(kCorpus, "split: in_order\ntrain_size: 5\nnum_steps: 9\nmin_freq: 1\nbatch_size: 8\n");
  const translation::TranslationData module = data.make();
  const data::Batch batch = module.batch(data::Part::kTrain, 0, {0, 4});
  const translation::TranslationBatch b(batch);
  const auto assets = std::dynamic_pointer_cast<const translation::TranslationAssets>(module.assets());
  const data::Tokenizer& target = assets->target();

  CHECK(b.source_layout.host_lengths() == std::vector<int64_t>{3, 4});  // go . <eos> | i'm home . <eos>
  CHECK(b.target_layout.host_lengths() == std::vector<int64_t>{3, 6});
  CHECK(batch.items == 9);
  CHECK(b.label.sizes() == at::IntArrayRef({2, 6}));
  CHECK(b.target.select(1, 0).eq(target.bos()).all().item<bool>());
  CHECK(at::equal(b.target.narrow(1, 1, 5), b.label.narrow(1, 0, 5)));
  CHECK(b.label[0][0].item<int64_t>() == target.id("va"));
  CHECK(b.label[0][2].item<int64_t>() == target.eos());
  CHECK(b.label[0][3].item<int64_t>() == target.pad());
  CHECK(assets->decode({target.id("va"), target.id("!")}) == "va!");
}

TEST_CASE("C25: truncation keeps <eos>, and the lengths count it") {
  TinyCorpusData data("a b c d e f g h i\tk l m n o p q r s t\nx\ty\n",
                      "num_steps: 5\nmin_freq: 1\ntoo_long: truncate\n");
  const translation::TranslationData module = data.make();
  const data::Batch batch = module.batch(data::Part::kTrain, 0, {0});
  const translation::TranslationBatch b(batch);
  const auto assets = std::dynamic_pointer_cast<const translation::TranslationAssets>(module.assets());
  CHECK(b.target_layout.host_lengths() == std::vector<int64_t>{5});
  CHECK(b.label[0][4].item<int64_t>() == assets->target().eos());
  CHECK(b.source[0][4].item<int64_t>() == assets->source().eos());

  TinyCorpusData dropping("a b c d e f g h i\tk l\nx\ty\n", "num_steps: 5\nmin_freq: 1\n");
  CHECK(dropping.make().size(data::Part::kTrain) == 1);
}

TEST_CASE("C20: special tokens in a text are unknown words") {
  TinyCorpusData data("a <eos> b\tk <pad> <bos> l\n", "num_steps: 9\nmin_freq: 1\n");
  const translation::TranslationData module = data.make();
  const data::Batch batch = module.batch(data::Part::kTrain, 0, {0});
  const translation::TranslationBatch b(batch);
  const auto assets = std::dynamic_pointer_cast<const translation::TranslationAssets>(module.assets());
  CHECK(b.source_layout.host_lengths() == std::vector<int64_t>{4});
  CHECK(b.target_layout.host_lengths() == std::vector<int64_t>{5});
  CHECK(b.source[0][1].item<int64_t>() == assets->source().unk());
  CHECK(b.label[0].eq(assets->target().pad()).sum().item<int64_t>() == 0);
  CHECK(assets->encode("<eos> a") ==
        std::vector<int64_t>{assets->source().unk(), assets->source().id("a"), assets->source().eos()});
  CHECK(assets->encode(" \t ").empty());
}

TEST_CASE("parts: by source, in order, from files") {
  std::string corpus;
  for (int i = 0; i < 200; ++i) corpus += "s" + std::to_string(i % 120) + "\tt" + std::to_string(i) + "\n";
  TinyCorpusData by_source(corpus, "num_steps: 5\nmin_freq: 1\nvalidation: {size: 0.1}\ntest: {size: 20}\n");
  const translation::TranslationData module = by_source.make();
  std::array<std::set<std::string>, 3> sources;
  size_t total = 0;
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    for (const auto& pair : module.pairs(part)) sources[static_cast<size_t>(part)].insert(pair.source);
    total += module.pairs(part).size();
  }
  CHECK(total == 200);
  CHECK(module.pairs(data::Part::kTest).size() >= 19);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (const auto& source : sources[i]) CHECK_FALSE(sources[j].contains(source));
    }
  }

  TinyCorpusData in_order(corpus,
                          "num_steps: 5\nmin_freq: 1\nsplit: in_order\ntrain_size: 100\nvalidation: {size: 50}\n");
  const translation::TranslationData book = in_order.make();
  CHECK(book.pairs(data::Part::kTrain).front().target == "t0");
  CHECK(book.pairs(data::Part::kValidation).front().target == "t100");
  CHECK(book.pairs(data::Part::kTest).empty());

  write_bytes(by_source.dir / "val.en", "s1\ns2\n");
  write_bytes(by_source.dir / "val.fr", "t1\nt2\n");
  TinyCorpusData files(corpus,
                       "num_steps: 5\nmin_freq: 1\nvalidation: {source_path: " + (by_source.dir / "val.en").string() +
                           ", target_path: " + (by_source.dir / "val.fr").string() + "}\n");
  CHECK(files.make().pairs(data::Part::kValidation).size() == 2);
}

TEST_CASE("the vocabulary comes from the training part, or from validation too") {
  const std::string corpus = "a\tk\na\tk\nb\tl\nb\tl\n";
  TinyCorpusData train(corpus, "num_steps: 5\nmin_freq: 2\nsplit: in_order\ntrain_size: 2\nvalidation: {size: 2}\n");
  CHECK(train.source_tokens() == 5);
  TinyCorpusData both(
      corpus,
      "num_steps: 5\nmin_freq: 2\nsplit: in_order\ntrain_size: 2\nvalidation: {size: 2}\nvocabulary_from: "
      "train_and_validation\n");
  CHECK(both.source_tokens() == 6);
}

TEST_CASE("C52: a vocabulary of special tokens only is refused") {
  TinyCorpusData data(kCorpus, "num_steps: 9\nmin_freq: 50\n");
  CHECK_THAT(error_of([&] { data.make(); }),
             ContainsSubstring("data.min_freq: no token of the source side occurs 50 times") &&
                 ContainsSubstring("nothing to learn"));
}

TEST_CASE("C52: shares of what is unknown, dropped or cut are said before training") {
  std::string corpus;
  for (int i = 0; i < 100; ++i) corpus += "a b\tk l\n";
  const auto warnings_of = [](const std::string& text, const std::string& yaml) {
    std::string all;
    for (const auto& warning : TinyCorpusData(text, yaml).make().warnings()) all += warning + "\n";
    return all;
  };
  const auto described = [](const std::string& text, const std::string& yaml) {
    std::string all;
    for (const auto& [key, value] : TinyCorpusData(text, yaml).make().describe()) all += key + ": " + value + "\n";
    return all;
  };
  CHECK(warnings_of(corpus, "num_steps: 9\n").empty());
  // Half of the held-out words are none of those trained on.
  std::string half = corpus;
  for (int i = 0; i < 10; ++i) half += "a x" + std::to_string(i) + "\tk l\n";
  const std::string in_order = "num_steps: 9\nsplit: in_order\ntrain_size: 100\nvalidation: {size: 10}\n";
  CHECK_THAT(warnings_of(half, in_order), ContainsSubstring("validation: 50% of the source tokens are unknown words"));
  CHECK_THAT(described(half, in_order),
             ContainsSubstring("validation: 10 pairs, unknown tokens: 50.0% of the source, 0.0% of the target"));
  // Most pairs are too long.
  std::string longer = "a b\tk l\n";
  for (int i = 0; i < 3; ++i) longer += "a b a b a b\tk l k l k l\n";
  CHECK_THAT(warnings_of(longer, "num_steps: 4\nmin_freq: 1\n"),
             ContainsSubstring("train: 3 of 4 pairs are dropped as longer than 4 tokens; raise data.num_steps"));
  CHECK_THAT(warnings_of(longer, "num_steps: 4\nmin_freq: 1\ntoo_long: truncate\n"),
             ContainsSubstring("train: 3 of 4 pairs are cut to 4 tokens"));
  CHECK_THAT(warnings_of("a\ta\nb\tb\n", "num_steps: 9\nmin_freq: 1\n"), ContainsSubstring("train: in 2 of 2 pairs"));
  // Text without spaces.
  const std::string chinese = "I love you.\t我爱你。\nIt is nice.\t今天天气很好。\n";
  CHECK_THAT(warnings_of(chinese, "num_steps: 9\nmin_freq: 1\n"),
             ContainsSubstring("the target side has no spaces between words") && !ContainsSubstring("the source side"));
  CHECK(warnings_of(chinese, "num_steps: 20\nmin_freq: 1\ntokenizer: {name: characters}\n").empty());
}

TEST_CASE("C55: parts, vocabulary and ids take a text for what it looks like, unless an old run did not") {
  const std::string corpus = "l’eau\ta\nl'eau\ta\nl'e\u00adau\ta\n";
  TinyCorpusData unified(corpus, "num_steps: 9\nmin_freq: 1\n");
  CHECK(unified.source_tokens() == 5);
  TinyCorpusData as_it_was(corpus, "num_steps: 9\nmin_freq: 1\nunify_characters: false\n");
  CHECK(as_it_was.source_tokens() == 7);
  // A run that is older than the setting goes on without.
  translation::TranslationConfig old;
  config::read(old, config::parse_yaml("{path: a}", "config.yaml"), config::Document::kRuns);
  CHECK_FALSE(old.unify_characters);
  CHECK_FALSE(old.text().unify);
}

TEST_CASE("settings that do not go together are refused by key") {
  const auto complaint = [](const std::string& yaml) {
    translation::TranslationConfig config;
    try {
      config::read(config, config::parse_yaml(yaml, "data.yaml"));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_THAT(complaint("num_steps: 9"), ContainsSubstring("data.path"));
  CHECK_THAT(complaint("{path: a, source_path: b, target_path: c}"), ContainsSubstring("either path or"));
  CHECK_THAT(complaint("source_path: b"), ContainsSubstring("target_path, which is not given"));
  CHECK_THAT(complaint("{path: a, split: in_order}"), ContainsSubstring("train_size"));
  CHECK_THAT(complaint("{path: a, train_size: 5}"), ContainsSubstring("needs split: in_order"));
  CHECK_THAT(complaint("{path: a, split: in_order, train_size: 5, validation: {size: 0.5}}"),
             ContainsSubstring("whole number of pairs"));
  CHECK_THAT(complaint("{path: a, test: {path: b, size: 5}}"), ContainsSubstring("files of its own"));
}

TEST_CASE("a loader gives the plan's batches from any one on, and passes errors through") {
  TinyCorpusData data(kCorpus, "num_steps: 9\nmin_freq: 1\nbatch_size: 2\n");
  const translation::TranslationData module = data.make();
  const data::BatchPlan plan = module.plan(data::Part::kTrain, 0);
  REQUIRE(plan.size() == 4);
  for (const int64_t first : {0, 3, 4}) {
    data::Loader loader(module, data::Part::kTrain, 0, {.first = first, .ahead = 1});
    for (size_t i = static_cast<size_t>(first); i < plan.size(); ++i) {
      const auto batch = loader.next();
      REQUIRE(batch.has_value());
      CHECK(at::equal(batch->tensor("source"), module.batch(data::Part::kTrain, 0, plan[i]).tensor("source")));
    }
    CHECK_FALSE(loader.next().has_value());
    CHECK_FALSE(loader.next().has_value());
  }
  { data::Loader abandoned(module, data::Part::kTrain, 0, {.ahead = 1}); }
  CHECK_THROWS_WITH(module.batch(data::Part::kTrain, 0, {0}).tensor("image"), ContainsSubstring("no tensor 'image'"));
}
