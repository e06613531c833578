#include "fovea/sweep/sweep_results.h"

#include <cmath>
#include <limits>

#include "fovea/sweep/sweep_file.h"
#include "fovea/sweep/sweep_picture.h"
#include "models/models.h"
#include "tests/source_dir.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;
using sweep::Result;
using sweep::Statistics;

namespace {

Result result_of(const std::string& member, double loss, int64_t pairs = 3) {
  return {.member = member,
          .report = {{"data", "validation"},
                     {"loss", loss},
                     {"by_length", {{{"words", "1-2"}, {"pairs", pairs}, {"loss", loss / 2}}}}},
          .training = {{"minutes", 1.5}, {"parameters", 10}}};
}

// Heads 1 and 2, two seeds, of the Transformer that ships.
sweep::Sweep heads(const TempDir& dir, const std::string& more = {}) {
  const auto base = (source_dir() / "configs" / "transformer_tiny.yaml").string();
  write_bytes(dir / "heads.yaml", "base: " + base + "\ngrid: {model: {num_heads: [1, 2]}}\nseeds: [5, 6]\n" + more);
  return sweep::load_sweep(models::registry(), dir / "heads.yaml");
}

}  // namespace

TEST_CASE("mean and standard deviation over seeds, in as many digits as they have") {
  CHECK(Statistics::of({}).text() == "-");
  CHECK(Statistics::of({2}).text() == "2");
  CHECK(Statistics::of({0.123456}).text() == "0.1235");
  CHECK(Statistics::of({123456.7}).text() == "123457");
  const Statistics three = Statistics::of({1, 2, 6});
  CHECK(three.count == 3);
  CHECK(three.mean == Approx(3));
  CHECK(three.spread == Approx(std::sqrt(7.0)));
  CHECK(three.text() == "3.0 ± 2.6");
  CHECK(Statistics::of({60.01, 60.02}).text() == "60.0150 ± 0.0071");
  CHECK(Statistics::of({std::numeric_limits<double>::quiet_NaN()}).text() == "-");
}

TEST_CASE("members: one seed of everything, then the next") {
  const TempDir dir;
  const auto sweep = heads(dir);
  std::vector<std::string> names;
  for (const auto& member : sweep.members) names.push_back(member.name);
  CHECK(names ==
        std::vector<std::string>{"num_heads-1-seed5", "num_heads-2-seed5", "num_heads-1-seed6", "num_heads-2-seed6"});
  CHECK(sweep.members[3].config.seed == 6);
  CHECK(sweep.members[3].setup(sweep.grid_names) == "num_heads 2");
}

TEST_CASE("results are kept in a file, a line for each member") {
  const TempDir dir;
  {
    sweep::Results results(dir / "results.jsonl");
    results.put(result_of("num_heads-1-seed5", 1));
    results.put(result_of("num_heads-2-seed5", 4));
    results.put(result_of("num_heads-1-seed5", 2));
  }
  const sweep::Results again(dir / "results.jsonl");
  REQUIRE(again.find("num_heads-1-seed5") != nullptr);
  CHECK(again.find("num_heads-1-seed5")->measure("loss") == 2.0);
  CHECK(again.find("num_heads-1-seed5")->measure("minutes") == 1.5);
  CHECK_FALSE(again.find("num_heads-1-seed5")->measure("data"));
  CHECK(again.find("num_heads-1-seed6") == nullptr);
  write_bytes(dir / "results.jsonl", read_bytes(dir / "results.jsonl") + "{\"member\": 1}\n");
  CHECK_THAT(error_of([&] { sweep::Results(dir / "results.jsonl"); }), ContainsSubstring("results.jsonl:3"));
}

TEST_CASE("findings: what seeds have in common, with those that are there") {
  const TempDir dir;
  const auto sweep = heads(dir);
  sweep::Results results(dir / "results.jsonl");
  CHECK_THAT(error_of([&] { picture_of(sweep, findings_of(sweep, results)); }),
             ContainsSubstring("no member has a result"));
  results.put(result_of("num_heads-1-seed5", 1));
  results.put(result_of("num_heads-1-seed6", 3));
  results.put(result_of("num_heads-2-seed5", 5, 4));
  const auto findings = findings_of(sweep, results);
  CHECK(findings.measures == std::vector<std::string>{"loss", "minutes"});
  REQUIRE(findings.setups.size() == 2);
  CHECK(findings.setups[0].seeds == 2);
  CHECK(findings.setups[0].measures[0].mean == 2);
  CHECK(findings.setups[1].measures[0].count == 1);
  REQUIRE(findings.bands.size() == 1);
  CHECK(findings.bands[0].label == "words");
  CHECK(findings.bands[0].measures == std::vector<std::string>{"pairs", "loss"});
  CHECK(findings.bands[0].values[1][0][0].mean == 1);
  CHECK_THAT(picture_of(sweep, findings).script, ContainsSubstring("yerrorbars"));
}

TEST_CASE("the sweeps that ship can be read, and say how they are run") {
  int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "configs" / "experiments")) {
    INFO(entry.path());
    const auto sweep = sweep::load_sweep(models::registry(), entry.path());
    CHECK(sweep.members.size() > 1);
    const std::string yaml = read_bytes(entry.path());
    CHECK(yaml.starts_with("# "));
    CHECK_THAT(yaml, ContainsSubstring("fovea sweep configs/experiments/" + entry.path().filename().string()));
    ++files;
  }
  CHECK(files >= 2);
}
