#include "fovea/tasks/translation/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;
using translation::TooLong;

namespace {

using Ids = std::vector<int64_t>;

const std::vector<translation::Pair> kPairs = {
    {"One two.", "Un deux."},                       // 3 and 3 tokens
    {"One two three four.", "Un."},                 // 5 and 2
    {"One.", "Un deux trois quatre cinq six."},     // 2 and 7
    {"Deux<eos> <eos> <pad> x", "<eos> <unk> un"},  // 4 and 3
};

// Words of both sides, learnt and encoded.
struct EncodedWords {
  std::shared_ptr<const data::Tokenizer> source, target;
  translation::EncodedCorpus corpus;

  EncodedWords(const std::vector<translation::Pair>& pairs, const translation::LengthOptions& length) {
    const auto source_learner = data::TokenizerChoice().learner({}),
               target_learner = data::TokenizerChoice().learner({});
    translation::learn_from(pairs, length, *source_learner, *target_learner);
    source = source_learner->learn();
    target = target_learner->learn();
    corpus = translation::encode_pairs(pairs, *source, *target, length);
  }
};

}  // namespace

TEST_CASE("long pairs are dropped and counted", "[encode]") {
  const EncodedWords words(kPairs, {.num_steps = 5, .too_long = TooLong::kDrop});
  const auto& corpus = words.corpus;
  REQUIRE(corpus.pairs.size() == 2);
  CHECK(corpus.dropped == 2);
  CHECK(corpus.truncated == 0);
  const auto& target = *words.target;
  CHECK(corpus.pairs[0].target == Ids{target.id("un"), target.id("deux"), target.id("."), target.eos()});
  CHECK(corpus.pairs[1].source.size() == 5);
  CHECK(target.id("trois") == target.unk());  // of a pair that was dropped
  CHECK(words.source->id("one") != words.source->unk());
  CHECK(words.source->id("three") == words.source->unk());
}

TEST_CASE("long pairs are truncated and keep their <eos>", "[encode]") {
  const EncodedWords words(kPairs, {.num_steps = 5, .too_long = TooLong::kTruncate});
  const auto& corpus = words.corpus;
  const auto &source = *words.source, &target = *words.target;
  REQUIRE(corpus.pairs.size() == 4);
  CHECK(corpus.dropped == 0);
  CHECK(corpus.truncated == 2);
  CHECK(corpus.pairs[1].source ==
        Ids{source.id("one"), source.id("two"), source.id("three"), source.id("four"), source.eos()});
  CHECK(target.decode(corpus.pairs[2].target) == "un deux trois quatre");
  CHECK(target.id("cinq") == target.unk());  // counted after truncation, as in d2l
  for (const auto& pair : corpus.pairs) {
    for (const auto* ids : {&pair.source, &pair.target}) CHECK(ids->size() <= 5);
    CHECK(std::count(pair.source.begin(), pair.source.end(), source.eos()) == 1);
    CHECK(std::count(pair.target.begin(), pair.target.end(), target.eos()) == 1);
    CHECK(pair.source.back() == source.eos());
    CHECK(pair.target.back() == target.eos());
  }
}

TEST_CASE("targets of 7 to 10 words in 9 steps", "[encode]") {
  for (size_t count = 7; count <= 10; ++count) {
    std::string line;
    for (size_t i = 0; i < count; ++i) line += fmt::format("w{} ", i);
    const EncodedWords words({{"s", line}}, {.num_steps = 9, .too_long = TooLong::kTruncate});
    REQUIRE(words.corpus.pairs.size() == 1);
    CHECK(words.corpus.pairs[0].target.size() == std::min<size_t>(count + 1, 9));
    CHECK(words.corpus.pairs[0].target.back() == words.target->eos());
    CHECK(words.corpus.truncated == (count > 8 ? 1 : 0));
  }
}

TEST_CASE("special tokens in text become <unk>", "[encode]") {
  const EncodedWords words(kPairs, {.num_steps = 9});
  const auto &source = *words.source, &target = *words.target;
  CHECK(words.corpus.pairs[3] ==
        translation::EncodedPair{{source.id("deux<eos>"), source.unk(), source.unk(), source.id("x"), source.eos()},
                                 {target.unk(), target.unk(), target.id("un"), target.eos()}});
}

TEST_CASE("a source to translate is cut whatever its length", "[encode]") {
  const auto v = data::make_tokenizer({}, {}, {"a b c"});
  bool is_truncated = true;
  CHECK(translation::encode_source("a b", *v, 3, &is_truncated) == Ids{v->id("a"), v->id("b"), v->eos()});
  CHECK_FALSE(is_truncated);
  CHECK(translation::encode_source("a b c", *v, 3, &is_truncated) == Ids{v->id("a"), v->id("b"), v->eos()});
  CHECK(is_truncated);
  CHECK(translation::encode_source("", *v, 1, &is_truncated).empty());
  CHECK_FALSE(is_truncated);
  std::string long_text;
  for (int i = 0; i < 5000; ++i) long_text += "a ";
  CHECK(translation::encode_source(long_text, *v, 9).size() == 9);
}

TEST_CASE("bad lengths are the user's error", "[encode]") {
  const auto encode = [](const std::vector<translation::Pair>& pairs, int64_t num_steps) {
    return EncodedWords(pairs, {.num_steps = num_steps}).corpus;
  };
  CHECK_THAT(error_of([&] { encode(kPairs, 0); }), ContainsSubstring("num_steps: expected 1 or more, found 0"));
  CHECK_THAT(error_of([&] { translation::check_some_left(encode(kPairs, 3), {.num_steps = 3}); }),
             ContainsSubstring("expected pairs of at most num_steps = 3 tokens (<eos> included), found all 4 longer"));
  CHECK(encode({}, 3).pairs.empty());
}
