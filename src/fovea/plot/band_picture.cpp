#include "fovea/plot/band_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

#include "fovea/core/error.h"
#include "fovea/plot/panel_picture.h"

namespace fovea::plot {
namespace {

using tasks::Report;

bool is_score(const Report::Grid& grid, size_t column) {
  return std::any_of(grid.rows.begin(), grid.rows.end(),
                     [&](const auto& row) { return std::holds_alternative<double>(row[column]); });
}

// The first column of whole numbers says how many examples there are.
std::optional<size_t> count_column(const Report::Grid& grid) {
  for (size_t c = 1; c < grid.columns.size(); ++c) {
    if (std::holds_alternative<int64_t>(grid.rows.front()[c])) return c;
  }
  return std::nullopt;
}

}  // namespace

Picture band_picture(const Report& report) {
  const auto grid = std::find_if(report.grids.begin(), report.grids.end(),
                                 [](const Report::Grid& g) { return g.bands != Report::Bands::kNone; });
  if (grid == report.grids.end() || grid->rows.empty()) {
    fail_usage("--output: only scores in bands are drawn, and there are none; see --by");
  }
  PanelFigure figure{.x_label = grid->columns.front().label};
  const auto count = count_column(*grid);
  if (count) figure.x_label += fmt::format(" (how many {})", grid->columns[*count].label);
  for (const auto& row : grid->rows) {
    figure.x_names.push_back(tasks::shown(row[0]) + (count ? fmt::format(" ({})", tasks::shown(row[*count])) : ""));
  }
  figure.x_range = {.low = -0.5, .high = static_cast<double>(grid->rows.size()) - 0.5};
  for (size_t c = 1; c < grid->columns.size(); ++c) {
    if (!is_score(*grid, c)) continue;
    Trace trace{.series = {}, .style = grid->bands == Report::Bands::kOrdered ? marked_style(0, 0) : point_style(0, 0)};
    for (size_t r = 0; r < grid->rows.size(); ++r) {
      const double* value = std::get_if<double>(&grid->rows[r][c]);
      trace.series.add(static_cast<double>(r), value != nullptr ? *value : std::numeric_limits<double>::quiet_NaN());
    }
    figure.panels.push_back({.label = grid->columns[c].label, .traces = {trace}});
  }
  return picture_of(figure);
}

}  // namespace fovea::plot
