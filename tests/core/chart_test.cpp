#include "fovea/core/chart.h"

#include <cmath>
#include <limits>

#include "fovea/core/display.h"
#include "tests/catch.h"

using fovea::chart_lines;
using fovea::Series;

namespace {

const Series kFalling{.name = "training", .x = {0, 10}, .y = {2, 0}};
const Series kRising{.name = "validation", .x = {0, 10}, .y = {0, 2}, .style = 1};

}  // namespace

TEST_CASE("chart: marks and ASCII where there is no UTF-8") {
  const auto lines =
      chart_lines({kFalling, kRising}, {.width = 24, .height = 5, .title = "loss", .x_label = "step", .utf8 = false});
  CHECK(lines == std::vector<std::string>{
                     "loss",
                     "2 |***               +++",
                     "  |   *****     +++++",
                     "  |        +++++",
                     "  |   +++++     *****",
                     "0 |+++               ***",
                     "  +---------------------",
                     "   0         5      step",
                     "* training  + validation",
                 });
}

TEST_CASE("chart: one curve in braille dots") {
  const auto lines = chart_lines({kFalling}, {.width = 16, .height = 2});
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "2 ┤⠉⠒⠒⠤⢄⣀⡀");
  CHECK(lines[2] == "  └─────────────");
  CHECK(lines[4] == "⠒⠒ training");
}

TEST_CASE("chart: colours where they are taken, marks where not") {
  std::string coloured, plain;
  for (const auto& line : chart_lines({kFalling, kRising}, {.colour = true})) coloured += line + "\n";
  for (const auto& line : chart_lines({kFalling, kRising}, {})) plain += line + "\n";
  CHECK_THAT(coloured, ContainsSubstring("\x1b[38;5;32m⠒⠒\x1b[0m training"));
  CHECK_THAT(coloured, ContainsSubstring("\x1b[38;5;166m"));
  CHECK_THAT(plain, ContainsSubstring("* training  + validation") && !ContainsSubstring("\x1b"));
}

TEST_CASE("chart: never wider than asked") {
  const Series wild{.name = std::string(200, 'n'), .x = {1e-9, 5e8, 1e9}, .y = {-1.23456e-7, 1, 1e12}};
  for (int64_t width = 0; width < 130; ++width) {
    for (const bool utf8 : {false, true}) {
      for (const auto& line :
           chart_lines({wild, kRising}, {.width = width, .title = "a title", .x_label = "steps", .utf8 = utf8})) {
        CHECK(fovea::display_width(line) <= width);
      }
    }
  }
}

TEST_CASE("chart: gaps, single points, and nothing at all") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto gap = chart_lines({{.name = "a", .x = {0, 1, 2, 3, 4}, .y = {1, 1, kNan, 1, 1}}},
                               {.width = 20, .height = 3, .utf8 = false});
  REQUIRE(gap.size() == 6);
  CHECK_THAT(gap[1], ContainsSubstring("*****       *****"));
  const auto point = chart_lines({{.name = "a", .x = {5}, .y = {1}}}, {.height = 3, .utf8 = false});
  CHECK_THAT(point[1], ContainsSubstring("*"));
  CHECK(chart_lines({}, {}).empty());
  CHECK(chart_lines({{.name = "a", .x = {1}, .y = {kNan}}}, {}).empty());
  CHECK(chart_lines({kFalling}, {.width = 10}).empty());
}
