#include "fovea/tasks/translation/encode.h"

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

#include <fmt/format.h>

#include <algorithm>

using namespace fovea;

namespace {

const std::vector<translation::Pair> kPairs = {
    {"One two.", "Un deux."},                       // 3 and 3 tokens
    {"One two three four.", "Un."},                 // 5 and 2
    {"One.", "Un deux trois quatre cinq six."},     // 2 and 7
    {"Deux<eos> <eos> <pad> x", "<eos> <unk> un"},  // 4 and 3
};

}  // namespace

TEST_CASE("long pairs are dropped and counted", "[encode]") {
  const translation::TokenizedCorpus corpus = translation::tokenize_pairs(kPairs, {}, {.num_steps = 5, .too_long = translation::TooLong::kDrop});
  CHECK(corpus.size() == 2);
  CHECK(corpus.pair_indices == std::vector<int64_t>{0, 3});
  CHECK(corpus.dropped == 2);
  CHECK(corpus.truncated == 0);
  CHECK(corpus.targets[0] == translation::Tokens{"un", "deux", "."});
}

TEST_CASE("long pairs are truncated and keep their <eos>", "[encode]") {
  const translation::TokenizedCorpus corpus = translation::tokenize_pairs(kPairs, {}, {.num_steps = 5, .too_long = translation::TooLong::kTruncate});
  CHECK(corpus.size() == 4);
  CHECK(corpus.dropped == 0);
  CHECK(corpus.truncated == 2);
  const data::Vocabulary source(corpus.sources), target(corpus.targets);
  const std::vector<translation::EncodedPair> encoded = translation::encode_pairs(corpus, source, target);
  REQUIRE(encoded.size() == 4);
  CHECK(encoded[1].source ==
        std::vector<int64_t>{source.id("one"), source.id("two"), source.id("three"), source.id("four"), source.eos()});
  CHECK(target.decode(encoded[2].target) == translation::Tokens{"un", "deux", "trois", "quatre"});
  CHECK(target.id("cinq") == target.unk());  // counted after truncation, as in d2l
  for (const auto& pair : encoded) {
    for (const auto* ids : {&pair.source, &pair.target}) CHECK(ids->size() <= 5);
    CHECK(std::count(pair.source.begin(), pair.source.end(), source.eos()) == 1);
    CHECK(std::count(pair.target.begin(), pair.target.end(), target.eos()) == 1);
    CHECK(pair.source.back() == source.eos());
    CHECK(pair.target.back() == target.eos());
  }
}

TEST_CASE("targets of 7 to 10 words in 9 steps", "[encode]") {
  for (size_t words = 7; words <= 10; ++words) {
    std::string line;
    for (size_t i = 0; i < words; ++i) line += fmt::format("w{} ", i);
    const translation::TokenizedCorpus corpus = translation::tokenize_pairs({{"s", line}}, {}, {.num_steps = 9, .too_long = translation::TooLong::kTruncate});
    const data::Vocabulary v(corpus.targets);
    const translation::EncodedPair pair = translation::encode_pair({}, corpus.targets[0], v, v);
    CHECK(pair.target.size() == std::min<size_t>(words + 1, 9));
    CHECK(pair.target.back() == v.eos());
    CHECK(corpus.truncated == (words > 8 ? 1 : 0));
  }
}

TEST_CASE("special tokens in text become <unk>", "[encode]") {
  const translation::TokenizedCorpus corpus = translation::tokenize_pairs(kPairs, {}, {.num_steps = 9});
  const data::Vocabulary v(corpus.sources);
  CHECK(translation::encode_pair(corpus.sources[3], corpus.targets[3], v, v) ==
        translation::EncodedPair{{v.id("deux<eos>"), v.unk(), v.unk(), v.id("x"), v.eos()}, {v.unk(), v.unk(), v.unk(), v.eos()}});
}

TEST_CASE("a source to translate is cut whatever its length", "[encode]") {
  const data::Vocabulary v(std::vector<translation::Tokens>{{"a", "b", "c"}});
  bool is_truncated = true;
  CHECK(translation::encode_source({"a", "b"}, v, 3, &is_truncated) == std::vector<int64_t>{v.id("a"), v.id("b"), v.eos()});
  CHECK_FALSE(is_truncated);
  CHECK(translation::encode_source({"a", "b", "c"}, v, 3, &is_truncated) == std::vector<int64_t>{v.id("a"), v.id("b"), v.eos()});
  CHECK(is_truncated);
  CHECK(translation::encode_source({}, v, 1) == std::vector<int64_t>{v.eos()});
  CHECK(translation::encode_source(translation::Tokens(5000, "a"), v, 9).size() == 9);
}

TEST_CASE("bad lengths are the user's error", "[encode]") {
  CHECK_THAT(error_of([] { translation::tokenize_pairs(kPairs, {}, {.num_steps = 0}); }),
             ContainsSubstring("num_steps: expected 1 or more, found 0"));
  CHECK_THAT(error_of([] { translation::tokenize_pairs(kPairs, {}, {.num_steps = 3}); }),
             ContainsSubstring("expected pairs of at most num_steps = 3 tokens (<eos> included), found all 4 longer"));
  CHECK(translation::tokenize_pairs({}, {}, {.num_steps = 3}).size() == 0);
}
