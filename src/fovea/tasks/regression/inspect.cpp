#include "fovea/tasks/regression/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/data/batching.h"
#include "fovea/tasks/histogram.h"
#include "fovea/tasks/regression/dataset.h"

namespace fovea::regression {
namespace {

constexpr size_t kSparkBins = 16;

std::string name_of_column(const NumberTable& table, size_t c) {
  return c < table.names.size() ? table.names[c] : fmt::format("column {}", c + 1);
}

std::vector<tasks::Value> column_row(const NumberTable& table, size_t c, bool is_target) {
  double low = table.rows[0][c], high = low, sum = 0, squares = 0;
  for (const auto& row : table.rows) {
    low = std::min(low, row[c]);
    high = std::max(high, row[c]);
    sum += row[c];
  }
  const auto count = static_cast<double>(table.rows.size());
  const double mean = sum / count;
  std::vector<int64_t> bins(kSparkBins, 0);
  for (const auto& row : table.rows) {
    squares += (row[c] - mean) * (row[c] - mean);
    const double at = high > low ? (row[c] - low) / (high - low) * static_cast<double>(kSparkBins) : 0;
    ++bins[std::min(kSparkBins - 1, static_cast<size_t>(at))];
  }
  return {name_of_column(table, c),
          std::string(is_target ? "target" : "feature"),
          low,
          mean,
          high,
          std::sqrt(squares / count),
          tasks::sparkline(bins)};
}

void add_table(tasks::Report& report, const NumberTable& table, const TableConfig& config,
               const tasks::InspectRequest& request) {
  tasks::Report::Grid grid{.key = "columns",
                           .columns = {{"name", "column"},
                                       {"role", "role"},
                                       {"least", "least"},
                                       {"mean", "mean"},
                                       {"greatest", "greatest"},
                                       {"std", "std"},
                                       {.key = "bar", .label = "distribution", .in_json = false}},
                           .rows = {}};
  const auto columns = static_cast<size_t>(table.columns());
  const size_t targets = std::min(columns, static_cast<size_t>(config.num_targets));
  for (size_t c = 0; c < columns; ++c) {
    grid.rows.push_back(column_row(table, c, c >= columns - targets));
    if (std::get<double>(grid.rows.back()[2]) == std::get<double>(grid.rows.back()[4])) {
      report.warnings.push_back(fmt::format("{} never changes", name_of_column(table, c)));
    }
  }
  report.grids.push_back(std::move(grid));
  std::map<std::vector<double>, std::vector<double>> seen;  // features and targets
  int64_t equal = 0, contradicting = 0;
  for (const auto& row : table.rows) {
    const auto cut = row.end() - static_cast<std::ptrdiff_t>(targets);
    const auto [first, is_new] = seen.emplace(std::vector(row.begin(), cut), std::vector(cut, row.end()));
    if (is_new) continue;
    (first->second == std::vector(cut, row.end()) ? equal : contradicting) += 1;
  }
  report.facts.push_back({.key = "equal_rows", .value = equal, .label = "equal rows"});
  report.facts.push_back(
      {.key = "same_features",
       .value = contradicting,
       .label = "same features",
       .text = contradicting == 0 ? "0" : fmt::format("{}, with other targets", counted(contradicting, "row"))});
  tasks::Report::Grid examples{.key = "examples", .columns = {{"row", "row"}}, .rows = {}};
  for (size_t c = 0; c < columns; ++c) examples.columns.push_back({name_of_column(table, c), name_of_column(table, c)});
  for (const int64_t i : data::shuffled(static_cast<int64_t>(table.rows.size()), request.seed, -2)) {
    if (static_cast<int64_t>(examples.rows.size()) == request.examples) break;
    auto& row = examples.rows.emplace_back();
    row.emplace_back(i + 1);
    for (const double value : table.rows[static_cast<size_t>(i)]) row.emplace_back(value);
  }
  report.grids.push_back(std::move(examples));
}

}  // namespace

tasks::Report inspect(const tasks::InspectRequest& request) {
  tasks::Report report;
  const auto* config = dynamic_cast<const TableConfig*>(request.section);
  try {
    const auto data = request.entry->make(*request.section, request.seed, nullptr);
    for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
      report.facts.push_back({.key = data::part_name(part), .value = data->size(part)});
    }
    report.warnings = data->warnings();
    if (config == nullptr) {
      for (const auto& [name, text] : data->describe()) {
        const bool is_part = std::any_of(report.facts.begin(), report.facts.end(),
                                         [&, key = name](const auto& fact) { return fact.key == key; });
        if (!is_part) report.facts.push_back({.key = name, .value = text});
      }
    }
  } catch (const Error& e) {
    if (config == nullptr) throw;
    report.warnings.emplace_back(fmt::format("a training would refuse this: {}", e.what()));
  }
  if (config == nullptr) return report;
  const NumberTable table = read_table(config->path);
  const auto rows = static_cast<int64_t>(table.rows.size());
  report.facts.insert(report.facts.begin(), tasks::Report::Fact{.key = "rows", .value = rows});
  add_table(report, table, *config, request);
  return report;
}

}  // namespace fovea::regression
