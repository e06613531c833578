#include "fovea/tasks/regression/table.h"

#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;
using regression::parse_row;
using regression::parse_table;

TEST_CASE("tables are read with tabs, commas or semicolons, with a header or without") {
  const std::vector<std::vector<double>> rows = {{1, 2.5}, {-3, 1e-3}};
  CHECK(parse_table("1\t2.5\n-3\t1e-3\n", "t").rows == rows);
  CHECK(parse_table("x,y\n1, 2.5\n\n-3 ,.001", "t").rows == rows);
  CHECK(parse_table("x,y\n1, 2.5\n\n-3 ,.001", "t").blank_lines == 1);
  CHECK(parse_table("a;b\r\n1;2.5\r\n-3;0.001\r\n", "t").names == std::vector<std::string>{"a", "b"});
  CHECK(parse_table("\xEF\xBB\xBF"
                    "7\n8\n",
                    "t")
            .columns() == 1);
  CHECK(parse_row(" 1.5 ,2") == std::vector<double>{1.5, 2});
}

TEST_CASE("what is no number is named with file, line and column") {
  const auto refused = [](const std::string& text) { return error_of([&] { parse_table(text, "t.tsv"); }); };
  CHECK_THAT(refused("1\t2\n3\tx\n"), ContainsSubstring("t.tsv:2: column 2: expected a number, found \"x\""));
  CHECK_THAT(refused("x\ty\n1\tnan\n"), ContainsSubstring("t.tsv:2: column 2"));
  CHECK_THAT(refused("1\t2\n3\n"), ContainsSubstring("t.tsv:2: expected 2 columns as in the lines before, found 1"));
  CHECK_THAT(refused("x\ty\n1\n"), ContainsSubstring("t.tsv:2: expected 2 columns"));
  CHECK_THAT(refused("1\t\n"), ContainsSubstring("column 2"));
  CHECK_THAT(refused("1e400\t1\n"), ContainsSubstring("column 1"));
  CHECK_THAT(refused(""), ContainsSubstring("found none"));
  CHECK_THAT(refused("x\ty\n"), ContainsSubstring("found none"));
}
