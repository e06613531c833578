#include "fovea/tasks/report.h"

#include <cmath>
#include <sstream>

#include "tests/catch.h"

using fovea::tasks::Report;

namespace {

Report example() {
  return {.facts = {{.key = "run", .value = "a", .in_table = false},
                    {.key = "loss", .value = 0.25},
                    {.key = "f1", .value = std::nan("")},
                    {.key = {}, .value = {}, .label = {}, .text = "a further line"},
                    {.key = "examples", .value = int64_t{7}, .label = "count"}},
          .grids = {{.key = "classes",
                     .columns = {{"name", "class"}, {"f1", "F1"}},
                     .rows = {{"boot", 0.5}, {"bag", std::nan("")}, {"mean", 0.5}},
                     .json_rows = 2}},
          .matrices = {{.key = "confusion",
                        .label = "actual \\ predicted",
                        .names = {"boot", "ankle boot"},
                        .counts = {{3, 1}, {0, 3}}}}};
}

}  // namespace

TEST_CASE("a report is one description, as tables and as JSON") {
  CHECK(example().json() ==
        "{\"run\":\"a\",\"loss\":0.25,\"f1\":null,\"examples\":7,"
        "\"classes\":[{\"name\":\"boot\",\"f1\":0.5},{\"name\":\"bag\",\"f1\":null}],\"confusion\":[[3,1],[0,3]]}");
  CHECK(example().text(0) ==
        "loss    0.2500\n"
        "f1      -\n"
        "        a further line\n"
        "count   7\n"
        "\n"
        "class       F1\n"
        "-----   ------\n"
        "boot    0.5000\n"
        "bag          -\n"
        "mean    0.5000\n"
        "\n"
        "actual \\ predicted   boot   ankle boot\n"
        "------------------   ----   ----------\n"
        "boot                    3            1\n"
        "ankle boot              0            3\n");
}

TEST_CASE("warnings are in JSON where there are some") {
  CHECK_THAT(example().json(), !ContainsSubstring("warnings"));
  Report report = example();
  report.warnings = {"means little"};
  CHECK_THAT(report.json(), ContainsSubstring("\"warnings\":[\"means little\"]"));
  CHECK(report.text(0) == example().text(0));
}

TEST_CASE("C63: a matrix that is wider still comes in parts") {
  Report report{.facts = {},
                .grids = {},
                .matrices = {{.key = "confusion", .label = "actual \\ predicted", .names = {}, .counts = {}}}};
  auto& matrix = report.matrices[0];
  for (int64_t c = 0; c < 12; ++c) {
    matrix.names.push_back("class " + std::to_string(c));
    matrix.counts.emplace_back(12, 1000 + c);
  }
  const std::string text = report.text(60);
  std::istringstream lines(text);
  int64_t headers = 0;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 60);
    headers += line.starts_with("actual") ? 1 : 0;
  }
  CHECK(headers == 2);
  CHECK_THAT(text, ContainsSubstring("    12\n"));
}

TEST_CASE("C63: a matrix that is too wide numbers its columns") {
  const std::string narrow = example().text(36);
  CHECK_THAT(narrow, ContainsSubstring("actual \\ predicted   1   2\n") && ContainsSubstring("2 ankle boot"));
}
