#include "fovea/sweep/sweep_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/numbers.h"
#include "fovea/plot/panel_picture.h"

namespace fovea::sweep {
namespace {

constexpr double kMargin = 0.04;    // left and right of the points, as a share of the axis
constexpr double kLeastGap = 0.08;  // between ticks with text

plot::Trace new_trace(const std::string& name, size_t index) {
  return {.series = {.name = name}, .style = plot::marked_style(index, index)};
}

void add_point(plot::Trace& trace, double x, const Statistics& y) {
  trace.series.add(x, y.count > 0 ? y.mean : std::numeric_limits<double>::quiet_NaN());
  trace.spread.push_back(y.spread);
}

Range range_of_names(size_t count) {
  return {.low = -0.5, .high = static_cast<double>(count) - 0.5};
}

Range with_margin(double low, double high, bool log) {
  if (log)
    return {.low = low / std::pow(high / low, kMargin) / 1.01, .high = high * std::pow(high / low, kMargin) * 1.01};
  const double margin = high > low ? kMargin * (high - low) : 0.5;
  return {.low = low - margin, .high = high + margin};
}

// The index of the key of the grid that is the x axis.
std::optional<size_t> axis_of(const Sweep& sweep) {
  if (!sweep.plot.x) return sweep.grid.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
  return static_cast<size_t>(std::find(sweep.grid.begin(), sweep.grid.end(), *sweep.plot.x) - sweep.grid.begin());
}

// What tells a setup from those that differ in the x axis only.
std::string name_without(const Sweep& sweep, const Setup& setup, size_t axis) {
  std::string name = setup.variant;
  for (size_t i = 0; i < setup.values.size(); ++i) {
    if (i == axis) continue;
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", sweep.grid_names[i], setup.values[i].value);
  }
  return name;
}

// Values of the x axis: numbers, or names in the order of the file.
struct Axis {
  std::vector<std::string> texts;
  bool is_number = true;

  double place(const std::string& text) const {
    if (is_number) return *parse_double(text);
    return static_cast<double>(std::find(texts.begin(), texts.end(), text) - texts.begin());
  }
};

Axis values_of(const Findings& findings, size_t axis) {
  Axis values;
  for (const auto& setup : findings.setups) {
    const std::string& text = setup.values[axis].value;
    if (std::find(values.texts.begin(), values.texts.end(), text) == values.texts.end()) values.texts.push_back(text);
    values.is_number = values.is_number && parse_double(text);
  }
  return values;
}

void set_axis(plot::PanelFigure& figure, const Axis& axis, bool log, const std::string& key) {
  if (!axis.is_number) {
    figure.x_names = axis.texts;
    figure.x_range = range_of_names(axis.texts.size());
    if (log) fail_usage("plot.log: {} has values that are no numbers", key);
    return;
  }
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& text : axis.texts) {
    low = std::min(low, axis.place(text));
    high = std::max(high, axis.place(text));
  }
  if (log && low <= 0) fail_usage("plot.log: expected values of {} above 0, found {}", key, low);
  figure.log_x = log;
  figure.x_range = with_margin(low, high, log);
  // The values themselves as ticks, where they have room: between 1, 2, 4 and 8 there is nothing to read off.
  const auto scaled = [&](double x) { return log ? std::log(x) : x; };
  const double room = kLeastGap * (scaled(high) - scaled(low));
  std::vector<std::pair<double, std::string>> ticks;
  for (const auto& text : axis.texts) ticks.emplace_back(axis.place(text), text);
  std::sort(ticks.begin(), ticks.end());
  for (size_t i = 1; i < ticks.size(); ++i) {
    if (scaled(ticks[i].first) - scaled(ticks[i - 1].first) < room) return;
  }
  for (const auto& [place, text] : ticks) {
    figure.x_places.push_back(place);
    figure.x_names.push_back(text);
  }
}

plot::PanelFigure over_grid(const Sweep& sweep, const Findings& findings, size_t axis) {
  plot::PanelFigure figure{.x_label = sweep.grid[axis]};
  const Axis values = values_of(findings, axis);
  set_axis(figure, values, sweep.plot.log, sweep.grid[axis]);
  std::vector<std::string> names;
  for (const auto& setup : findings.setups) {
    const std::string name = name_without(sweep, setup, axis);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (size_t m = 0; m < findings.measures.size(); ++m) {
    auto& panel = figure.panels.emplace_back(plot::PanelFigure::Panel{.label = findings.measures[m]});
    for (size_t i = 0; i < names.size(); ++i) {
      plot::Trace trace = new_trace(names[i], i);
      for (const auto& setup : findings.setups) {
        if (name_without(sweep, setup, axis) != names[i]) continue;
        add_point(trace, values.place(setup.values[axis].value), setup.measures[m]);
      }
      panel.traces.push_back(trace);
    }
  }
  if (names.size() > 1) figure.legend = figure.panels.front().traces;
  return figure;
}

plot::PanelFigure over_setups(const Findings& findings) {
  plot::PanelFigure figure{.x_range = range_of_names(findings.setups.size())};
  for (const auto& setup : findings.setups) figure.x_names.push_back(setup.name);
  for (size_t m = 0; m < findings.measures.size(); ++m) {
    auto& panel = figure.panels.emplace_back(plot::PanelFigure::Panel{.label = findings.measures[m]});
    plot::Trace trace{.series = {}, .style = plot::point_style(0, 0)};
    for (size_t i = 0; i < findings.setups.size(); ++i) {
      add_point(trace, static_cast<double>(i), findings.setups[i].measures[m]);
    }
    panel.traces.push_back(trace);
  }
  return figure;
}

plot::PanelFigure over_bands(const Sweep& sweep, const Findings& findings) {
  const Bands& bands = findings.bands.front();
  plot::PanelFigure figure{
      .x_label = bands.label, .x_range = range_of_names(bands.names.size()), .x_names = bands.names};
  for (size_t m = 0; m < bands.measures.size(); ++m) {
    const auto& chosen = sweep.measures;
    const bool is_asked = std::find(chosen.begin(), chosen.end(), bands.measures[m]) != chosen.end();
    if (!chosen.empty() && !is_asked) continue;
    auto& panel = figure.panels.emplace_back(plot::PanelFigure::Panel{.label = bands.measures[m]});
    for (size_t i = 0; i < findings.setups.size(); ++i) {
      plot::Trace trace = new_trace(findings.setups[i].name, i);
      for (size_t b = 0; b < bands.names.size(); ++b) {
        add_point(trace, static_cast<double>(b), bands.values[m][i][b]);
      }
      panel.traces.push_back(trace);
    }
  }
  if (findings.setups.size() > 1 && !figure.panels.empty()) figure.legend = figure.panels.front().traces;
  return figure;
}

}  // namespace

plot::Picture picture_of(const Sweep& sweep, const Findings& findings) {
  const bool is_empty = findings.measures.empty() || std::none_of(findings.setups.begin(), findings.setups.end(),
                                                                  [](const Setup& setup) { return setup.seeds > 0; });
  if (is_empty) fail_usage("{}: no member has a result yet, there is nothing to draw", sweep.file.string());
  if (!findings.bands.empty() && !sweep.plot.x) return picture_of(over_bands(sweep, findings));
  const auto axis = axis_of(sweep);
  return picture_of(axis ? over_grid(sweep, findings, *axis) : over_setups(findings));
}

}  // namespace fovea::sweep
