#include "fovea/tasks/translation/corpus.h"

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/tasks/translation/print.h"
#include "tests/temp_dir.h"

#include <zlib.h>

using namespace fovea;

namespace {

using Pairs = std::vector<translation::Pair>;

std::string tsv_error(const std::string& text) {
  return error_of([&] { translation::parse_tsv(text, "a.tsv"); });
}

}  // namespace

TEST_CASE("C12 a TSV corpus: two fields, the rest ignored", "[corpus]") {
  const translation::Corpus corpus = translation::parse_tsv(
      "\uFEFFGo.\tVa !\tCC-BY 2.0 (France) Attribution: tatoeba.org\r\n"
      "Hi.\tSalut\u202f!\n"
      "Wait\u2028here.\tAttends\u0085ici.\t\t\t",
      "a.tsv");
  CHECK(corpus.pairs == Pairs{{"Go.", "Va !"}, {"Hi.", "Salut\u202f!"}, {"Wait\u2028here.", "Attends\u0085ici."}});
  CHECK(corpus.counts == translation::ReadCounts{.lines = 3, .kept = 3, .skipped_blank = 0, .skipped_one_sided = 0});
  CHECK(corpus.describe() == "3 lines: 3 pairs kept");
}

TEST_CASE("C14 holes are skipped and counted", "[corpus]") {
  const translation::Corpus corpus =
      translation::parse_tsv("a\tb\n\n\t\na\t\n\tb\nno tab\n \u00a0\u3000\n\u00a0\t \t\n\t\tonly third\nc\td", "a.tsv");
  CHECK(corpus.pairs == Pairs{{"a", "b"}, {"c", "d"}});
  CHECK(corpus.counts == translation::ReadCounts{.lines = 10, .kept = 2, .skipped_blank = 5, .skipped_one_sided = 3});
  CHECK(corpus.describe() == "10 lines: 2 pairs kept, 5 blank and 3 one-sided skipped");
}

TEST_CASE("a corpus without a pair is an error that says why", "[corpus]") {
  CHECK_THAT(tsv_error(""), ContainsSubstring("a.tsv: expected lines of source<TAB>target, found an empty file"));
  CHECK_THAT(tsv_error("\nGo.  Va !\nHi. Salut !\n"),
             ContainsSubstring("a.tsv: expected source<TAB>target on each line, found no tab in 3 lines, e.g. "
                               "\"Go.  Va !\""));
  CHECK_THAT(tsv_error("\n"), ContainsSubstring("found no tab in 1 line"));
  CHECK_THAT(tsv_error("a\t\n\tb\n"), ContainsSubstring("expected at least one line with a source and a target, found "
                                                        "none in 2 lines: 0 pairs kept, 0 blank and 2 one-sided"));
  CHECK_THAT(tsv_error("a\tb\nc\t\xE9 d\n"), ContainsSubstring("a.tsv:2: expected UTF-8"));
  CHECK_THAT(tsv_error("a\tb\rc\td\r"), ContainsSubstring("a.tsv:1: expected lines that end in LF or CR LF"));
}

TEST_CASE("parallel files are read line by line", "[corpus]") {
  const translation::Corpus corpus =
      translation::parse_parallel("a\n\nb\n \nc\td\r\n", "A\nX\n\n\u00a0\nC\tD", "x.en", "x.fr");
  CHECK(corpus.pairs == Pairs{{"a", "A"}, {"c\td", "C\tD"}});
  CHECK(corpus.counts == translation::ReadCounts{.lines = 5, .kept = 2, .skipped_blank = 1, .skipped_one_sided = 2});

  const auto complaint = [](std::string_view source, std::string_view target) {
    return error_of([&] { translation::parse_parallel(source, target, "x.en", "x.fr"); });
  };
  CHECK_THAT(complaint("a\nb\n", "A\n"), ContainsSubstring("expected as many lines in x.en as in x.fr, found 2 and 1"));
  CHECK_THAT(complaint("a\nb", "A\u2028B"), ContainsSubstring("found 2 and 1"));
  CHECK_THAT(complaint("", ""), ContainsSubstring("x.en and x.fr: expected sentences, found two empty files"));
  CHECK_THAT(complaint("a\n", "\n"), ContainsSubstring("found none in 1 line: 0 pairs kept"));
  CHECK_THAT(complaint("a\n", "\xFF\n"), ContainsSubstring("x.fr:1: "));
}

TEST_CASE("C38 corpora are read from files, plain or gzip", "[corpus]") {
  const TempDir dir;
  const std::string text = "Go.\tVa !\nHi.\tSalut !\n";
  write_bytes(dir / "a.tsv", text);
  CHECK(translation::read_tsv(dir / "a.tsv").counts.kept == 2);
  // Two members, under a name that says nothing.
  for (const char* mode : {"wb", "ab"}) {
    gzFile file = gzopen((dir / "packed").c_str(), mode);
    REQUIRE(file != nullptr);
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  CHECK(translation::read_tsv(dir / "packed").counts.kept == 4);
  write_bytes(dir / "b", "1\n2\n3\n4\n");
  CHECK(translation::read_parallel(dir / "packed", dir / "b").counts.kept == 4);

  try {
    translation::read_tsv(dir / "none.tsv");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    CHECK_THAT(error.what(), ContainsSubstring("none.tsv: No such file"));
  }
}

TEST_CASE("C52: lines that are no sentence pairs are told of, and kept", "[corpus]") {
  const auto said = [](const std::string& text) {
    std::string all;
    for (const auto& doubt : translation::doubts(translation::parse_tsv(text, "a.tsv"))) all += doubt + "\n";
    return all;
  };
  CHECK(said("Go.\tVa !\nHi.\tSalut !\nOK.\tOK.\n\n").empty());
  CHECK_THAT(said("a\tb\n\n\nc\nd\n"),
             ContainsSubstring("4 of 5 lines hold no pair: 2 are blank, 2 have a source or a target only"));
  CHECK_THAT(said("a\ta\nb\tb\nc\td\n"), ContainsSubstring("in 2 of 3 pairs the target is the source itself"));
  for (const std::string header : {"en\tfr", "source\ttarget", "Sentence\tTranslation", "\"English\"\t\"French\""}) {
    CHECK_THAT(said(header + "\nGo.\tVa !\n"),
               ContainsSubstring("the first line") && ContainsSubstring("seems to name columns"));
  }
  CHECK(said("Go.\tVa !\nen\tfr\n").empty());
  CHECK_THAT(said("\"a\"\t\"b\"\n\"c\"\t\"d\"\n"), ContainsSubstring("CSV's quotes are around 2 pairs"));
  CHECK_THAT(said("a\tb\n\"He said \"\"no\"\".\"\tc\nd\te\n"), ContainsSubstring("CSV's quotes are around 1 pair,"));
  CHECK(said("\"No,\" he said.\tb\n\"Yes.\"\tc\nd\te\n").empty());
  CHECK_THAT(error_of([] { translation::parse_tsv("Go.,Va !\nHi.,Salut !\n", "a.csv"); }),
             ContainsSubstring("if it is CSV"));
}

TEST_CASE("C55: a line of nothing visible is blank", "[corpus]") {
  const std::string text = "a\tb\n\u200b\t\ufeff\u00ad\n\u200b\tb\n";
  CHECK(translation::parse_tsv(text, "a.tsv").counts ==
        translation::ReadCounts{.lines = 3, .kept = 1, .skipped_blank = 1, .skipped_one_sided = 1});
  CHECK(translation::parse_tsv(text, "a.tsv", /*unify=*/false).counts.kept == 3);
}
