#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::regression {

/// Numbers in rows of equal length.
struct NumberTable {
  std::vector<std::string> names;         // of the columns, if there is a header; else empty
  std::vector<std::vector<double>> rows;  // never empty
  int64_t blank_lines = 0;

  int64_t columns() const { return static_cast<int64_t>(rows.front().size()); }
};

/// The numbers of one line, separated by tabs, commas or semicolons (whichever comes first in it), spaces around them
/// ignored. Throws Error that says which column holds no finite number.
std::vector<double> parse_row(std::string_view line);

/// Reads a table, plain or gzip: TSV or CSV, with a header or without one. A first line of which no field is a number
/// is a header; blank lines are skipped and counted. Throws Error naming file and line for what is no number, for
/// rows of different lengths and for a name that two columns have.
NumberTable read_table(const std::filesystem::path& path);
/// The same for text in memory; `name` stands for it in errors.
NumberTable parse_table(std::string_view text, const std::string& name);

/// Throws a usage Error unless a table has the columns of another, as many and, where both have names, of these names.
void check_same_columns(const NumberTable& table, const std::filesystem::path& path, const NumberTable& other,
                        const std::filesystem::path& other_path);

}  // namespace fovea::regression
