#include "fovea/core/table.h"

#include <cmath>

#include "fovea/core/display.h"
#include "tests/catch.h"

using fovea::Table;

TEST_CASE("table: columns by display width", "[table]") {
  Table table({.header = {"source", "n", "réf."}, .align = {Table::Align::kLeft, Table::Align::kRight}});
  table.add_row({"été", "9", "x"});
  table.add_row({"東京", "1000"});
  table.add_row({"e\u0301e\u0301", "", "a\tb\n"});
  CHECK(table.str() ==
        "source      n   réf.\n"
        "------   ----   ----\n"
        "été         9   x\n"
        "東京     1000\n"
        "e\u0301e\u0301              a b\n");
  CHECK(Table().str().empty());
  Table settings({.width = 13, .indent = 2});
  settings.add_row({"a", "abcdef"});
  settings.add_row({"bbb", "abc defghijkl"});
  settings.add_row({"c", "東京東京東"});
  CHECK(settings.str() == "  a    abcdef\n  bbb  abc\n       defghi\n       jkl\n  c    東京東\n       京東\n");
}

TEST_CASE("C63: text is broken at spaces, else between characters", "[table]") {
  using Lines = std::vector<std::string>;
  CHECK(fovea::wrap_width("", 10) == Lines{""});
  CHECK(fovea::wrap_width("one two three", 7) == Lines{"one two", "three"});
  CHECK(fovea::wrap_width("one two three", 8) == Lines{"one two", "three"});
  CHECK(fovea::wrap_width("abcdefgh", 3) == Lines{"abc", "def", "gh"});
  CHECK(fovea::wrap_width("東京東京", 5) == Lines{"東京", "東京"});
  CHECK(fovea::wrap_width("e\u0301e\u0301e\u0301", 2) == Lines{"e\u0301e\u0301", "e\u0301"});
  CHECK(fovea::wrap_width("東京", 1) == Lines{"東", "京"});
}

TEST_CASE("C63: a table that is too wide wraps text before numbers", "[table]") {
  Table table({.header = {"source", "n"}, .align = {Table::Align::kLeft, Table::Align::kRight}, .width = 20});
  table.add_row({"a sentence of some words", "123456"});
  table.add_title("a title that is longer");
  table.add_row({"b", "1"});
  CHECK(table.str() ==
        "source             n\n"
        "------------  ------\n"
        "a sentence    123456\n"
        "of some\n"
        "words\n"
        "\n"
        "a title that is\n"
        "longer\n"
        "b                  1\n");
}

TEST_CASE("display: widths and numbers", "[table][progress]") {
  CHECK(fovea::display_width("a東\u0301\xff\n") == 4);
  CHECK(fovea::fit_width("abc", 0).empty());
  CHECK(fovea::fit_width("abc", 1) == "…");
  CHECK(fovea::format_duration(42.4) == "0:42");
  CHECK(fovea::format_duration(725) == "12:05");
  CHECK(fovea::format_duration(3599.6) == "1:00:00");
  CHECK(fovea::format_duration(11220) == "3:07:00");
  CHECK(fovea::format_duration(-1) == "-");
  CHECK(fovea::format_duration(INFINITY) == "-");
  CHECK(fovea::format_duration(NAN) == "-");
  CHECK(fovea::format_count(0) == "0");
  CHECK(fovea::format_count(999.4) == "999");
  CHECK(fovea::format_count(999.9) == "1.0k");
  CHECK(fovea::format_count(5321) == "5.3k");
  CHECK(fovea::format_count(1e6) == "1.0M");
  CHECK(fovea::format_count(999960) == "1.0M");
  CHECK(fovea::format_count(NAN) == "-");
  CHECK(fovea::format_small(1e-3) == "1.0e-3");
  CHECK(fovea::format_small(1.25e-12) == "1.2e-12");
  CHECK(fovea::format_small(0.5) == "5.0e-1");
  CHECK(fovea::format_small(1) == "1.0e0");
  CHECK(fovea::format_small(0) == "0");
}
