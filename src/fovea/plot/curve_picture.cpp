#include "fovea/plot/curve_picture.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fovea/core/chart.h"
#include "fovea/plot/panel_picture.h"

namespace fovea::plot {
namespace {

std::string style_of(const Curve& curve, size_t runs) {
  const size_t colour = runs == 1 && curve.is_validation ? 1 : curve.run;
  if (!curve.is_validation) return line_style(curve.run, colour) + " lw 1";
  return marked_style(curve.run, colour, std::max<size_t>(curve.series.x.size() / 20, 1));
}

// Each curve once, in the order of the runs, whichever panels have it.
std::vector<const Curve*> legend_of(const Curves& curves) {
  std::map<std::pair<size_t, bool>, const Curve*> legend;
  for (const Panel& panel : curves.panels) {
    for (const Curve& curve : panel.curves) legend.try_emplace({curve.run, curve.is_validation}, &curve);
  }
  std::vector<const Curve*> all;
  for (const auto& [key, curve] : legend) all.push_back(curve);
  return all;
}

// From 0, where training begins, to the last point.
Range x_range(const Curves& curves) {
  double most = 0;
  for (const Panel& panel : curves.panels) {
    for (const Curve& curve : panel.curves) {
      for (const double x : curve.series.x) most = std::max(most, x);
    }
  }
  return {.low = 0, .high = most > 0 ? most : 1};
}

}  // namespace

Picture picture_of(const Curves& curves) {
  PanelFigure figure{.x_label = curves.x_label, .x_range = x_range(curves)};
  const auto trace_of = [&](const Curve& curve) { return Trace{curve.series, style_of(curve, curves.runs)}; };
  for (const Curve* curve : legend_of(curves)) figure.legend.push_back(trace_of(*curve));
  for (const Panel& panel : curves.panels) {
    figure.panels.push_back({.label = panel.measure});
    for (const Curve& curve : panel.curves) figure.panels.back().traces.push_back(trace_of(curve));
  }
  return picture_of(figure);
}

std::vector<std::string> curve_lines(const Curves& curves, int64_t width, bool utf8, bool colour) {
  std::map<std::pair<size_t, bool>, size_t> styles;
  for (const Curve* curve : legend_of(curves))
    styles.emplace(std::pair(curve->run, curve->is_validation), styles.size());
  std::vector<std::string> lines;
  for (const Panel& panel : curves.panels) {
    std::vector<Series> all;
    for (const Curve& curve : panel.curves) {
      all.push_back(curve.series);
      all.back().style = styles.at({curve.run, curve.is_validation});
    }
    if (!lines.empty()) lines.emplace_back();
    const auto chart = chart_lines(
        all, {.width = width, .title = panel.measure, .x_label = curves.x_label, .utf8 = utf8, .colour = colour});
    lines.insert(lines.end(), chart.begin(), chart.end());
  }
  return lines;
}

}  // namespace fovea::plot
