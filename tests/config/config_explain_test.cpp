#include "fovea/config/explain.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/config/config_sections.h"

using namespace fovea::config;

namespace {

const Explained& line_of(const std::vector<Explained>& lines, const std::string& key, const std::string& entry = "") {
  const auto found = std::find_if(lines.begin(), lines.end(), [&](const Explained& line) {
    return line.what == Explained::What::kSetting && line.key == key && line.entry == entry;
  });
  REQUIRE(found != lines.end());
  return *found;
}

}  // namespace

TEST_CASE("explain has type and limits, default and help of every key", "[config]") {
  const auto lines = explain(sections::Experiment());
  const Explained& heads = line_of(lines, "model.num_heads", "transformer");
  CHECK(heads.expected == "a whole number from 1 to 1024");
  CHECK(heads.default_text == "4");
  CHECK(heads.help == "heads of every attention layer");
  CHECK(line_of(lines, "model.num_hiddens", "gru").default_text == "32");
  CHECK(line_of(lines, "model.name").expected == "one of transformer, gru, nothing");
  CHECK(line_of(lines, "model.name").default_text == "required");
  CHECK(line_of(lines, "data.path").default_text == "required");
  CHECK(line_of(lines, "train.betas").expected == "a list of 2 numbers, each of at least 0 and below 1");
  CHECK(line_of(lines, "train.max_minutes").expected == "a number above 0 or null");
  CHECK(line_of(lines, "train.max_minutes").default_text == "null");
  CHECK(line_of(lines, "train.schedule.kind").expected == "one of constant, cosine");
}

TEST_CASE("the table is aligned and keeps its width", "[config]") {
  CHECK(explain_table(sections::Experiment(), "gru") ==
        R"(key                   type and limits              default   meaning

model.name = gru: a recurrent encoder and decoder
model.num_hiddens     whole number of at least 1   32        width of every layer
model.bidirectional   true or false                false     read the source both ways
)");
  CHECK(explain_table(sections::Experiment(), "gru", 60) == R"(key                  meaning (type and limits; default)

model.name = gru: a recurrent encoder and decoder
model.num_hiddens    width of every layer (whole number of
                     at least 1; default 32)
model.bidirectional  read the source both ways (true or
                     false; default false)
)");
  for (const int64_t width : {60, 80, 100, 140}) {
    std::istringstream lines(explain_table(sections::Experiment(), "", width));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(fovea::display_width(line) <= width);
      CHECK((line.empty() || line.back() != ' '));
    }
  }
}

TEST_CASE("the table keeps to a key, a section or a name", "[config]") {
  const sections::Experiment experiment;
  CHECK_THAT(explain_table(experiment, "train.schedule"), ContainsSubstring("train.schedule: the rate over time"));
  CHECK_THAT(explain_table(experiment, "train.schedule"), !ContainsSubstring("train.lr"));
  CHECK_THAT(explain_table(experiment, "warmup_steps"), ContainsSubstring("train.schedule.warmup_steps"));
  CHECK_THAT(explain_table(experiment, "model"), ContainsSubstring("model.name = transformer: attention is all"));
  CHECK_THAT(explain_table(experiment, "transformer"), !ContainsSubstring("bidirectional"));
  try {
    explain_table(experiment, "transfomer");
    FAIL("expected an error");
  } catch (const fovea::Error& error) {
    CHECK(error.kind() == fovea::ErrorKind::kUsage);
    CHECK(std::string(error.what()) == "no setting, model or data is called 'transfomer'; did you mean 'transformer'?");
  }
}
