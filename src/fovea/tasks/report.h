#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace fovea::tasks {

/// A number, text or nothing. NaN and infinity count as nothing.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// What an evaluation found, described once: printed as a table, as JSON, drawn or served by those who know no task.
struct Report {
  /// One line: "accuracy  0.9174 (9174 of 10000 right)".
  struct Fact {
    std::string key;         // in JSON; empty: not there
    Value value = {};        // in JSON
    std::string label = {};  // in the table; empty: the key
    std::string text = {};   // in the table; empty: the value with 4 digits
    bool in_table = true;    // false: in JSON only
  };
  struct Column {
    std::string key;    // in JSON
    std::string label;  // in the table
    int digits = 4;     // of numbers with a point, in the table
    bool in_json = true, in_table = true;
  };
  /// In JSON a list of objects, one a row; rows beyond `json_rows` (a mean, a total) are in the printed table only.
  struct Grid {
    std::string key;
    std::vector<Column> columns;
    std::vector<std::vector<Value>> rows;
    size_t json_rows = SIZE_MAX;
    bool comes_first = false;  // before the facts: examples, which one scrolls past
  };
  /// Counts of (row, column). In JSON a list of lists.
  struct Matrix {
    std::string key;
    std::string label;               // of the corner: "actual \\ predicted"
    std::vector<std::string> names;  // of rows and columns
    std::vector<std::vector<int64_t>> counts;
  };

  std::vector<Fact> facts;
  std::vector<Grid> grids;
  std::vector<Matrix> matrices;
  std::vector<std::string> warnings = {};  // why a number may mean little; in JSON too, where there are some

  /// Tables for people, wrapped to `width` columns; 0: as wide as they are.
  std::string text(int64_t width) const;
  /// One JSON object on one line.
  std::string json() const;
};

}  // namespace fovea::tasks
