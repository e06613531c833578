#include "fovea/plot/gnuplot.h"

#include <set>

#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;

TEST_CASE("gnuplot: text is taken as it is") {
  CHECK(plot::literal("a_b^2 {x} \\n") == "'a_b^2 {x} \\n'");
  CHECK(plot::literal("it's") == "'it''s'");
  CHECK(plot::literal("two\nlines") == "'two lines'");
}

TEST_CASE("gnuplot: the name says the format") {
  CHECK(plot::format_of("a/b.svg") == plot::Format::kSvg);
  CHECK(plot::format_of("b.c.png") == plot::Format::kPng);
  CHECK(plot::format_of("b.pdf") == plot::Format::kPdf);
  for (const char* wrong : {"b", "b.jpg", "svg", "b.svg.gz", "b.SVG"}) {
    CHECK_THAT(error_of([&] { plot::format_of(wrong); }), ContainsSubstring("expected a name that ends in .svg"));
  }
}

TEST_CASE("gnuplot: colours differ") {
  std::set<std::string> colours;
  for (size_t i = 0; i < 7; ++i) colours.insert(plot::colour_of(i));
  CHECK(colours.size() == 7);
  CHECK(plot::colour_of(7) == plot::colour_of(0));
}
