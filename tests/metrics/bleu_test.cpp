#include "fovea/metrics/bleu.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

#include "fovea/core/version.h"
#include "tests/catch.h"
#include "tests/source_dir.h"
#include "tests/temp_dir.h"

using namespace fovea;

namespace {

using Words = std::vector<std::string>;

Words words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

}  // namespace

TEST_CASE("bleu: d2l's sentence score", "[bleu][C26]") {
  const auto score = [](const char* pred, const char* label, int64_t k) {
    return metrics::bleu(words(pred), words(label), k);
  };
  CHECK(score("he is home", "he is at home", 2) == Approx(0.602529).margin(1e-6));
  CHECK(score("the the the", "the cat", 1) == Approx(0.577350).margin(1e-6));
  CHECK(score("he is at home now", "he is at home", 1) == Approx(std::sqrt(0.8)));  // brevity 1
  CHECK(score("va !", "va !", 2) == 1);
  CHECK(score("va !", "va !", 9) == 1);  // k is cut to the prediction's length
  CHECK(score("j'ai perdu .", "je me suis perdu .", 2) ==
        Approx(std::exp(1 - 5.0 / 3) * std::sqrt(2.0 / 3) * std::pow(0.5, 0.25)));
  CHECK(score("home", "he is at home", 2) == Approx(std::exp(-3)));
  CHECK(score("a b", "c d", 2) == 0);
  CHECK(score("", "he is at home", 2) == 0);
  CHECK(score("he is at home", "", 2) == 0);
  CHECK(score("", "", 2) == 0);
  CHECK_THAT(error_of([&] { score("a", "a", 0); }), ContainsSubstring("k of at least 1, found 0"));
}

TEST_CASE("bleu: 13a tokens", "[bleu]") {
  CHECK(metrics::tokenize_13a("Hello, world! It's 3.5, 1,000. x.y -5 2-3") ==
        words("Hello , world ! It's 3.5 , 1,000 . x . y -5 2 - 3"));
  CHECK(metrics::tokenize_13a("a..b ... .5 5.") == words("a . . b . . . . 5 5 ."));
  CHECK(metrics::tokenize_13a("&quot;a&amp;lt;b&quot; <skipped> c-\nd e\nf") == words("\" a < b \" cd e f"));
  CHECK(metrics::tokenize_13a("«\u00a0é\u3000à\u2028,œ.»") == words("« é à , œ . »"));
  CHECK(metrics::tokenize_13a(" \t\u00a0").empty());
}

TEST_CASE("bleu: the corpus score equals sacreBLEU's", "[bleu][C26][C27]") {
  std::ifstream file(source_dir() / "tests/golden/bleu_cases.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  REQUIRE(golden["cases"].size() > 20);
  for (const nlohmann::json& example : golden["cases"]) {
    for (const bool lowercase : {false, true}) {
      INFO(example["name"] << (lowercase ? " lc" : " mixed"));
      const nlohmann::json& expected = example[lowercase ? "lc" : "mixed"];
      const metrics::BleuScore found = metrics::corpus_bleu(
          example["hypotheses"].get<Words>(), example["references"].get<Words>(), {.lowercase = lowercase});
      CHECK(found.score == Approx(expected["score"].get<double>()).epsilon(1e-12).margin(1e-300));
      CHECK(found.brevity_penalty == Approx(expected["bp"].get<double>()).epsilon(1e-12));
      CHECK(found.hypothesis_length == expected["sys_len"]);
      CHECK(found.reference_length == expected["ref_len"]);
      for (size_t n = 0; n < 4; ++n) {
        CHECK(found.precisions[n] == Approx(expected["precisions"][n].get<double>()).epsilon(1e-12));
        CHECK(found.counts[n] == expected["counts"][n]);
        CHECK(found.totals[n] == expected["totals"][n]);
      }
      std::string signature = expected["signature"];
      signature.replace(signature.find("version:"), std::string::npos, std::string("version:fovea-") + fovea::kVersion);
      CHECK(found.signature == signature);
    }
  }
}

TEST_CASE("bleu: format and errors", "[bleu]") {
  metrics::BleuScore score =
      metrics::corpus_bleu({"the dog ran quickly across the green field"}, {"the dog ran fast across the green field"});
  CHECK(score.format() == "BLEU = 50.00 87.5/71.4/50.0/20.0 (BP = 1.000 ratio = 1.000 hyp_len = 8 ref_len = 8)");
  score = metrics::corpus_bleu({""}, {""});
  CHECK(score.format() == "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 0.000 hyp_len = 0 ref_len = 0)");
  CHECK_THAT(error_of([] { metrics::corpus_bleu({"a", "b"}, {"a"}); }), ContainsSubstring("found 2 and 1"));
  CHECK_THAT(error_of([] { metrics::corpus_bleu({}, {}); }), ContainsSubstring("found none"));
}

TEST_CASE("bleu: the version in signatures is the project's", "[bleu]") {
  CHECK_THAT(read_bytes(source_dir() / "CMakeLists.txt"), ContainsSubstring(std::string("VERSION ") + fovea::kVersion));
}

TEST_CASE("C57: text without spaces is scored and warned of; long words are not", "[bleu]") {
  const auto warning = [](const std::string& reference) { return metrics::corpus_bleu({"x"}, {reference}).warning; };
  CHECK_THAT(warning("今天天气很好。"),
             ContainsSubstring("no spaces between words") && ContainsSubstring("sacrebleu -tok"));
  CHECK_FALSE(warning("วันนี้อากาศดีมาก").empty());
  CHECK_FALSE(warning("今日はいい天気です").empty());
  CHECK(warning("Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz").empty());
  CHECK(warning("epäjärjestelmällistyttämättömyydellänsäkäänköhän").empty());
}

TEST_CASE("C55: references are compared as a model reads them, and the signature says so", "[bleu]") {
  const Words hypotheses = {"l'eau est là ."}, references = {"l’e\u00adau est là ."};
  CHECK(metrics::corpus_bleu(hypotheses, references).score < 60);
  const auto unified = metrics::corpus_bleu(hypotheses, references, {.unify = true});
  CHECK(unified.score == Approx(100));
  CHECK_THAT(unified.signature, ContainsSubstring("|chars:unified|"));
  CHECK(metrics::corpus_bleu(hypotheses, hypotheses, {.unify = true}).signature ==
        metrics::corpus_bleu(hypotheses, hypotheses).signature);
}
