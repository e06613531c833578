#include "fovea/config/dump.h"
#include "fovea/config/explain.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "tests/catch.h"

using namespace fovea::config;

namespace shapes {

enum class Shape { kRound, kSquare, kUnnamed };

constexpr auto enum_names(Shape) {
  return std::to_array<fovea::EnumName<Shape>>({{Shape::kRound, "round"}, {Shape::kSquare, "square"}});
}

}  // namespace shapes

namespace {

struct Table : Section {
  shapes::Shape top = shapes::Shape::kSquare;
  std::string wood = "oak";
  void fields(Fields& f) override {
    f("top", top, "the shape of the top");
    f("wood", wood, "what it is made of", choice({"oak", "beech"}));
  }
};

struct Chair : Section {
  shapes::Shape seat{};
  void fields(Fields& f) override { f("seat", seat, "the shape of the seat", required); }
};

template <typename T>
std::string enum_error(const std::string& text) {
  try {
    T section;
    read(section, parse_yaml(text, "x.yaml"));
  } catch (const fovea::Error& error) {
    CHECK(error.kind() == fovea::ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("an enum is read, dumped and explained by the names of its values") {
  Table table;
  CHECK(dump(table) == "top: square\nwood: oak\n");
  read(table, parse_yaml("top: round\n", "x.yaml"));
  CHECK(table.top == shapes::Shape::kRound);
  CHECK(settings(table).front() == KeyValue{"top", "round"});
  CHECK(explain(Table()).front().expected == "one of round, square");
  CHECK(explain(Table()).front().default_text == "square");
  CHECK(explain(Chair()).front().default_text == "required");
  Table other;
  CHECK(differences(table, other).front().before == "round");
}

TEST_CASE("what is no name of an enum is refused as a choice is") {
  for (const auto& [value, found] : std::vector<std::pair<std::string, std::string>>{
           {"rund", "found 'rund'; did you mean 'round'?"}, {"[round]", "found a list"}, {"7", "found '7'"}}) {
    CHECK(enum_error<Table>("top: " + value) == "x.yaml:1: top: expected one of round, square, " + found);
  }
  std::string text = enum_error<Table>("wood: rund");
  text.replace(text.find("wood"), 4, "top").replace(text.find("oak, beech"), 10, "round, square");
  CHECK_THAT(enum_error<Table>("top: rund"), ContainsSubstring(text));
  CHECK(enum_error<Table>("top:") == "x.yaml:1: top: has no value; expected one of round, square");
  CHECK(enum_error<Chair>("{}") == "x.yaml: seat: is required, but not given; expected one of round, square");
}

TEST_CASE("names and values of an enum lead to each other") {
  CHECK(fovea::names_of<shapes::Shape>() == std::vector<std::string>{"round", "square"});
  CHECK(fovea::name_of(shapes::Shape::kSquare) == "square");
  CHECK(fovea::enum_from_name<shapes::Shape>("square") == shapes::Shape::kSquare);
  CHECK_THROWS_WITH(fovea::enum_from_name<shapes::Shape>("oval"), "no value of an enum is called 'oval'");
  CHECK_THROWS_WITH(fovea::name_of(shapes::Shape::kUnnamed), "an enum has no name for its value 2");
}
