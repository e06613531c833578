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

TEST_CASE("C63: a message is broken between fields or words; paths and commands can be pasted", "[table]") {
  using fovea::wrap_message;
  const std::string text = "x.yaml:3: expected a number\n  translation: no tabs here\n";
  CHECK(wrap_message(text, 0) == text);
  CHECK(wrap_message(text, 27) == text);
  CHECK(wrap_message(text, 24) == "x.yaml:3: expected a\n  number\n  translation: no tabs\n    here\n");
  CHECK(wrap_message(text, 27, 7) == "x.yaml:3: expected a\n  number\n  translation: no tabs here\n");
  CHECK(wrap_message("one two three", 16, 7) == "one two\n  three");  // what is before it leaves less room
  CHECK(wrap_message("see /a/very/long/path there", 10) == "see\n  /a/very/long/path\n  there");
  CHECK(wrap_message("epoch 1  loss 2.5  accuracy 0.5", 20) == "epoch 1  loss 2.5\n  accuracy 0.5");
  CHECK(wrap_message("it said 'a  b', not what was due", 20) == "it said 'a  b', not\n  what was due");
  CHECK(wrap_message("go on: fovea train x", 16) == "go on:\n  fovea train x");
  CHECK(wrap_message("as in: fovea train x, or look at the help", 20) ==
        "as in:\n  fovea train x, or\n  look at the help");
  CHECK(wrap_message("go on: fovea train --resume runs/x a=1", 24) ==
        "go on:\n  fovea train \\\n      --resume runs/x \\\n      a=1");
  CHECK(wrap_message("  ", 1) == "  ");
  CHECK(wrap_message("a b", 1) == "a\n  b");
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
