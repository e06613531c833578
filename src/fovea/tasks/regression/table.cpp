#include "fovea/tasks/regression/table.h"

#include <algorithm>
#include <cctype>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/core/numbers.h"
#include "fovea/data/text.h"

namespace fovea::regression {
namespace {

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> fields_of(std::string_view line) {
  const size_t found = line.find_first_of("\t,;");
  const char separator = found == std::string_view::npos ? '\t' : line[found];
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t end = line.find(separator);
    fields.push_back(trim(line.substr(0, end)));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

bool is_header(const std::vector<std::string_view>& fields) {
  return std::none_of(fields.begin(), fields.end(), [](std::string_view f) { return f.empty() || parse_double(f); });
}

void check_names(std::vector<std::string> names, const std::string& place) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  fail("{}: two columns are named \"{}\"; expected a name of its own for each", place, data::excerpt(*twice));
}

std::vector<double> parse_fields(const std::vector<std::string_view>& fields) {
  std::vector<double> row;
  for (const std::string_view field : fields) {
    const auto number = parse_double(field);
    if (!number) {
      fail_usage("column {}: expected a number, found \"{}\"{}", row.size() + 1, data::excerpt(field),
                 field.empty() || number.reason.empty() ? "" : " (" + number.reason + ")");
    }
    row.push_back(*number);
  }
  return row;
}

}  // namespace

std::vector<double> parse_row(std::string_view line) {
  return parse_fields(fields_of(line));
}

NumberTable parse_table(std::string_view text, const std::string& name) {
  NumberTable table;
  const auto lines = data::split_lines(data::check_utf8(text, name));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (data::is_blank(lines[i])) {
      ++table.blank_lines;
      continue;
    }
    const auto fields = fields_of(lines[i]);
    if (table.rows.empty() && table.names.empty() && is_header(fields)) {
      table.names.assign(fields.begin(), fields.end());
      check_names(table.names, fmt::format("{}:{}", name, i + 1));
      continue;
    }
    std::vector<double> row;
    try {
      row = parse_fields(fields);
    } catch (const Error& e) {
      fail_usage("{}:{}: {}", name, i + 1, e.what());
    }
    const size_t expected = !table.rows.empty()    ? table.rows.front().size()
                            : !table.names.empty() ? table.names.size()
                                                   : row.size();
    if (row.size() != expected) {
      fail_usage("{}:{}: expected {} as in the lines before, found {}", name, i + 1, counted(expected, "column"),
                 row.size());
    }
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) fail_usage("{}: expected rows of numbers, found none", name);
  return table;
}

void check_same_columns(const NumberTable& table, const std::filesystem::path& path, const NumberTable& other,
                        const std::filesystem::path& other_path) {
  if (table.columns() != other.columns()) {
    fail_usage("{}: expected {} as in {}, found {}", path.string(), counted(other.columns(), "column"),
               other_path.string(), table.columns());
  }
  if (table.names.empty() || other.names.empty()) return;
  for (size_t c = 0; c < table.names.size(); ++c) {
    if (table.names[c] == other.names[c]) continue;
    fail_usage("{}: column {} is \"{}\"; expected \"{}\" as in {}", path.string(), c + 1, data::excerpt(table.names[c]),
               data::excerpt(other.names[c]), other_path.string());
  }
}

NumberTable read_table(const std::filesystem::path& path) {
  return parse_table(read_maybe_gzip(path), path.string());
}

}  // namespace fovea::regression
