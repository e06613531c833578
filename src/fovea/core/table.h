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
class Table {
 public:
  enum class Align { kLeft, kRight };

  struct Options {
    std::vector<std::string> header = {};  // none: no header and no rule
    std::vector<Align> align = {};         // left for the columns beyond
    int64_t max_width = 0;                 // columns; longer cells are cut, ending in "…"; 0: no limit
    int64_t indent = 0;                    // spaces before each line
  };

  Table() = default;
  explicit Table(Options options) : options_(std::move(options)) {}

  /// A row may have fewer cells than others. Control characters in a cell become spaces.
  void add_row(const std::vector<std::string>& cells);

  /// The lines, each ended by a newline, without spaces at their ends; "" for a table without rows
  /// and header.
  std::string str() const;

 private:
  Options options_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fovea
