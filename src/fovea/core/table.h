#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea {

/// A plain text table with columns aligned by what they take on a terminal, whatever the script:
///
///     source      translation         reference
///     ---------   -----------------   --------------------
///     I'm home.   Je suis chez moi.   Je suis à la maison.
///
/// A table that is wider than `width` wraps its cells: the widest columns of text give way first, numbers last.
class Table {
 public:
  enum class Align { kLeft, kRight };

  struct Options {
    std::vector<std::string> header = {};  // none: no header and no rule
    std::vector<Align> align = {};         // left for the columns beyond
    int64_t width = 0;                     // columns of the terminal; 0: no limit
    int64_t indent = 0;                    // spaces before each line
    bool rule = true;                      // a line below the header
  };

  Table() = default;
  explicit Table(Options options) : options_(std::move(options)) {}

  /// A row may have fewer cells than others. Control characters in a cell become spaces.
  void add_row(const std::vector<std::string>& cells);
  /// Text across all columns, after an empty line: the title of the rows that follow.
  void add_title(const std::string& text);

  /// The lines, each ended by a newline, without spaces at their ends; "" for a table without rows
  /// and header.
  std::string str() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_title = false;
  };
  std::vector<int64_t> natural_widths() const;
  /// Of the longest word in each column: below that, words are cut.
  std::vector<int64_t> word_widths() const;
  /// Widths that fit, at a distance of `gap`.
  std::vector<int64_t> fitted(std::vector<int64_t> widths, int64_t gap) const;
  bool is_right(size_t column) const {
    return column < options_.align.size() && options_.align[column] == Align::kRight;
  }

  Options options_;
  std::vector<Row> rows_;
};

}  // namespace fovea
