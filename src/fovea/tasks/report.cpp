#include "fovea/tasks/report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/table.h"

namespace fovea::tasks {
namespace {

constexpr size_t kWidestMatrix = 20;  // classes; no terminal shows a wider one

bool is_missing(const Value& value) {
  const double* number = std::get_if<double>(&value);
  return std::holds_alternative<std::monostate>(value) || (number != nullptr && !std::isfinite(*number));
}

nlohmann::ordered_json to_json(const Value& value) {
  if (is_missing(value)) return nullptr;
  return std::visit(
      [](const auto& v) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value);
}

std::string rows_of(const Report::Grid& grid, int64_t width) {
  Table::Options options;
  for (size_t c = 0; c < grid.columns.size(); ++c) {
    if (!grid.columns[c].in_table) continue;
    options.header.push_back(grid.columns[c].label);
    const bool is_text =
        !grid.rows.empty() && c < grid.rows[0].size() && std::holds_alternative<std::string>(grid.rows[0][c]);
    options.align.push_back(is_text ? Table::Align::kLeft : Table::Align::kRight);
  }
  options.width = width;
  Table table(options);
  for (const auto& row : grid.rows) {
    std::vector<std::string> cells;
    for (size_t c = 0; c < row.size(); ++c) {
      if (grid.columns[c].in_table) cells.push_back(shown(row[c], grid.columns[c].digits));
    }
    table.add_row(cells);
  }
  return table.str();
}

std::string table_of(const Report::Grid& grid, int64_t width) {
  if (!grid.title.empty()) return grid.title + "\n\n" + rows_of(grid, width);
  return rows_of(grid, width);
}

// Numbers with seven digits, as many as a float has.
double rounded(float value) {
  return std::round(static_cast<double>(value) * 1e7) / 1e7;
}

nlohmann::ordered_json to_json(const Report::Attention& attention) {
  auto heads = nlohmann::ordered_json::array();
  for (int64_t h = 0; h < attention.heads; ++h) {
    auto& rows = heads.emplace_back(nlohmann::ordered_json::array());
    for (size_t q = 0; q < attention.queries.size(); ++q) {
      auto& row = rows.emplace_back(nlohmann::ordered_json::array());
      for (size_t k = 0; k < attention.keys.size(); ++k) row.push_back(rounded(attention.weight(h, q, k)));
    }
  }
  nlohmann::ordered_json object = {{"name", attention.key},
                                   {"group", attention.group},
                                   {"queries", attention.queries},
                                   {"keys", attention.keys},
                                   {"weights", std::move(heads)}};
  if (attention.grid_rows > 0) object["grid"] = {attention.grid_rows, attention.grid_columns};
  return object;
}

// On how many keys a query spreads its weight: the exponential of the entropy, the mean over all queries of each head.
std::string spreads(const Report::Attention& attention) {
  std::string text;
  for (int64_t h = 0; h < attention.heads; ++h) {
    double sum = 0;
    for (size_t q = 0; q < attention.queries.size(); ++q) {
      double entropy = 0;
      for (size_t k = 0; k < attention.keys.size(); ++k) {
        const double weight = attention.weight(h, q, k);
        if (weight > 0) entropy -= weight * std::log(weight);
      }
      sum += std::exp(entropy);
    }
    text += fmt::format("{}{:.1f}", h > 0 ? " " : "", sum / static_cast<double>(attention.queries.size()));
  }
  return text;
}

std::string table_of(const std::vector<Report::Attention>& attentions, int64_t width) {
  using Align = Table::Align;
  Table table({.header = {"attention", "of", "queries", "keys", "keys that a query looks at, by head"},
               .align = {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft},
               .width = width});
  for (const auto& a : attentions) {
    table.add_row({a.key, a.group, std::to_string(a.queries.size()), std::to_string(a.keys.size()), spreads(a)});
  }
  return table.str();
}

std::string table_of(const Report::Matrix& matrix, int64_t width) {
  if (matrix.names.size() > kWidestMatrix) {
    return fmt::format("({} of {} classes: see --json)\n", matrix.key, matrix.names.size());
  }
  // The columns from `first` to `last`, under their names or their numbers.
  const auto table_with = [&](size_t first, size_t last, bool is_numbered) {
    std::vector<std::string> header = {matrix.label};
    for (size_t c = first; c < last; ++c) header.push_back(is_numbered ? std::to_string(c + 1) : matrix.names[c]);
    std::vector<Table::Align> align(header.size(), Table::Align::kRight);
    align[0] = Table::Align::kLeft;
    Table table({.header = header, .align = align});
    for (size_t r = 0; r < matrix.counts.size(); ++r) {
      std::vector<std::string> row = {is_numbered ? fmt::format("{} {}", r + 1, matrix.names[r]) : matrix.names[r]};
      for (size_t c = first; c < last; ++c) row.push_back(std::to_string(matrix.counts[r][c]));
      table.add_row(row);
    }
    return table.str();
  };
  const auto fits = [width](const std::string& table) {
    return width == 0 || static_cast<int64_t>(table.find('\n')) <= width;
  };
  const size_t count = matrix.names.size();
  const std::string wide = table_with(0, count, false);
  if (fits(wide)) return wide;
  // Names above the columns are what makes it wide: number them. Where that is not enough, some columns at a time.
  std::string text;
  for (size_t first = 0; first < count;) {
    size_t last = count;
    while (last > first + 1 && !fits(table_with(first, last, true))) --last;
    text += (first > 0 ? "\n" : "") + table_with(first, last, true);
    first = last;
  }
  return text;
}

}  // namespace

std::string shown(const Value& value, int digits) {
  if (is_missing(value)) return "-";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.{}f}", *number, digits);
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  return std::get<std::string>(value);
}

std::string Report::text(int64_t width) const {
  std::string text;
  for (const auto& grid : grids) {
    if (grid.comes_first) text += table_of(grid, width) + "\n";
  }
  Table table({.header = {}, .align = {}, .width = width});
  for (const auto& fact : facts) {
    if (!fact.in_table) continue;
    const bool is_continuation = fact.label.empty() && fact.key.empty();
    table.add_row({is_continuation      ? ""
                   : fact.label.empty() ? fact.key
                                        : fact.label,
                   fact.text.empty() ? shown(fact.value, 4) : fact.text});
  }
  text += table.str();
  for (const auto& grid : grids) {
    if (!grid.comes_first) text += "\n" + table_of(grid, width);
  }
  for (const auto& matrix : matrices) text += "\n" + table_of(matrix, width);
  if (!attentions.empty()) text += "\n" + table_of(attentions, width);
  return text;
}

std::string Report::json() const {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& fact : facts) {
    if (!fact.key.empty()) object[fact.key] = to_json(fact.value);
  }
  for (const auto& grid : grids) {
    auto& list = object[grid.key] = nlohmann::ordered_json::array();
    for (size_t r = 0; r < std::min(grid.rows.size(), grid.json_rows); ++r) {
      nlohmann::ordered_json row;
      for (size_t c = 0; c < grid.rows[r].size(); ++c) {
        if (grid.columns[c].in_json) row[grid.columns[c].key] = to_json(grid.rows[r][c]);
      }
      list.push_back(std::move(row));
    }
  }
  for (const auto& matrix : matrices) object[matrix.key] = matrix.counts;
  if (!attentions.empty()) {
    auto& list = object["attention"] = nlohmann::ordered_json::array();
    for (const auto& attention : attentions) list.push_back(to_json(attention));
  }
  if (!warnings.empty()) object["warnings"] = warnings;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace fovea::tasks
