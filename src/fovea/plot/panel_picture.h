#pragma once

#include <string>
#include <vector>

#include "fovea/core/series.h"
#include "fovea/plot/gnuplot.h"

namespace fovea::plot {

/// Points that are drawn in one style, perhaps joined.
struct Trace {
  Series series;                    // its name is for the legend
  std::string style;                // for gnuplot, what follows "with": "lines lc rgb '#0072B2'"
  std::vector<double> spread = {};  // of y, drawn as bars up and down; none, or one for each point
};

/// Panels one above the other with one x axis, and a legend above them.
struct PanelFigure {
  struct Panel {
    std::string label;  // of the y axis
    std::vector<Trace> traces = {};
    bool log_y = false;
  };
  std::string x_label = {};
  Range x_range = {};
  std::vector<std::string> x_names = {};  // of x = 0, 1, 2, ...; none: x is a number
  std::vector<double> x_places = {};      // of the names, where they have others
  bool log_x = false;
  std::vector<Trace> legend = {};  // names and styles; perhaps none
  std::vector<Panel> panels = {};
};

Picture picture_of(const PanelFigure& figure);

/// The style of the curve with that index among others: a line in a colour, with dashes of its own, which a print
/// without colours tells apart.
std::string line_style(size_t index, size_t colour);
/// The same with marks of its own, on each so many points.
std::string marked_style(size_t index, size_t colour, size_t points_apart = 1);
/// Marks that nothing joins, as they have no order.
std::string point_style(size_t index, size_t colour);

}  // namespace fovea::plot
