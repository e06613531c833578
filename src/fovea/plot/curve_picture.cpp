#include "fovea/plot/curve_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "fovea/core/chart.h"
#include "fovea/core/display.h"

namespace fovea::plot {
namespace {

constexpr size_t kMostPoints = 2000;  // of a curve: more are not seen
constexpr int kWidth = 800, kLeft = 84, kRight = 28, kTop = 10, kBottom = 58, kGap = 26;  // pixels
constexpr int kLegendRow = 20, kSample = 44, kCharacter = 7;
constexpr int kPanel = 240, kLowPanel = 180;  // with up to two, with more

// How a curve looks, after "lines" or "linespoints".
std::string style_of(const Curve& curve, size_t runs) {
  constexpr std::array<int, 5> kPoints = {7, 5, 9, 13, 11};
  const size_t colour = runs == 1 && curve.is_validation ? 1 : curve.run;
  const size_t dashes = curve.run % kPoints.size() + 1;
  std::string style = fmt::format("lc rgb '{}' dt {}", colour_of(colour), dashes);
  if (!curve.is_validation) return "lines " + style + " lw 1";
  const size_t points_apart = std::max<size_t>(curve.series.x.size() / 20, 1);
  return fmt::format("linespoints {} lw 1.6 pt {} ps 0.6 pointinterval {}", style, kPoints[curve.run % kPoints.size()],
                     points_apart);
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

// Commands and data of a gnuplot script, and how much of the height is used.
class CurveScript {
 public:
  explicit CurveScript(const Curves& curves) : curves_(curves), legend_(legend_of(curves)) {
    int64_t longest = 1;
    for (const Curve* curve : legend_) longest = std::max(longest, display_width(curve->series.name));
    column_ = std::min<int>(kWidth - kLeft, kSample + static_cast<int>(longest + 2) * kCharacter);
    columns_ = std::clamp<int>((kWidth - kLeft) / column_, 1, static_cast<int>(legend_.size()));
    const int rows = (static_cast<int>(legend_.size()) + columns_ - 1) / columns_;
    legend_height_ = rows * kLegendRow;
    panel_ = curves.panels.size() > 2 ? kLowPanel : kPanel;
    height_ = kTop + legend_height_ + kGap / 2 + static_cast<int>(curves.panels.size()) * panel_ + kBottom - kGap;
  }

  Picture picture() {
    text_ += "set multiplot\nunset key\n";
    add_legend();
    text_ +=
        "unset label\nset border 3 lc '#606060'\nset xtics nomirror out scale 0.5\n"
        "set ytics nomirror out scale 0.5\nset grid ytics lt 1 lc '#e4e4e4' lw 0.6\n";
    fmt::format_to(std::back_inserter(text_), "set xrange [{}]\nset yrange [*:*]\n", x_range());
    for (size_t i = 0; i < curves_.panels.size(); ++i) add_panel(i);
    text_ += "unset multiplot\n";
    return {.width = kWidth, .height = height_, .script = data_ + text_};
  }

 private:
  // A place from the top as gnuplot's share of the height.
  double down(double pixels) const { return 1 - pixels / height_; }

  void add_area(int top, int bottom, int left, int right) {
    fmt::format_to(std::back_inserter(text_),
                   "set tmargin at screen {}\nset bmargin at screen {}\nset lmargin at screen {}\n"
                   "set rmargin at screen {}\n",
                   down(top), down(bottom), static_cast<double>(left) / kWidth,
                   1 - static_cast<double>(right) / kWidth);
  }

  // The name of a block with these points.
  std::string add_data(const Series& series) {
    const std::string name = fmt::format("$curve{}", blocks_++);
    data_ += name + " << EOD\n";
    for (size_t i = 0; i < series.x.size(); ++i) {
      const bool is_point = std::isfinite(series.y[i]);
      data_ += is_point ? fmt::format("{} {}\n", series.x[i], series.y[i]) : "\n";  // an empty line breaks the curve
    }
    data_ += "EOD\n";
    return name;
  }

  void add_plots(const std::vector<std::string>& plots) { text_ += fmt::format("plot {}\n", fmt::join(plots, ", ")); }

  // Samples and names, placed by hand: gnuplot's own key covers curves where names are long.
  void add_legend() {
    text_ += "unset border\nunset tics\n";
    add_area(kTop, kTop + legend_height_, kLeft, 0);
    fmt::format_to(std::back_inserter(text_), "set xrange [0:{}]\nset yrange [{}:0]\n", kWidth - kLeft, legend_height_);
    std::vector<std::string> plots;
    const int64_t room = (column_ - kSample) / kCharacter;
    for (size_t i = 0; i < legend_.size(); ++i) {
      const int x = static_cast<int>(i) % columns_ * column_;
      const int y = static_cast<int>(i) / columns_ * kLegendRow + kLegendRow / 2;
      fmt::format_to(std::back_inserter(text_), "set label {} at {},{} left\n",
                     literal(fit_width(legend_[i]->series.name, room)), x + kSample, y);
      Curve sample = *legend_[i];
      sample.series = {};
      for (const int at : {0, kSample / 2 - 4, kSample - 8}) sample.series.add(x + at, y);
      plots.push_back(add_data(sample.series) + " with " + style_of(sample, curves_.runs));
    }
    add_plots(plots);
  }

  std::string x_range() const {
    std::vector<double> all = {0};
    for (const Panel& panel : curves_.panels) {
      for (const Curve& curve : panel.curves) all.insert(all.end(), curve.series.x.begin(), curve.series.x.end());
    }
    const double most = *std::max_element(all.begin(), all.end());
    return fmt::format("0:{}", most > 0 ? most : 1);
  }

  void add_panel(size_t index) {
    const Panel& panel = curves_.panels[index];
    const int top = kTop + legend_height_ + kGap / 2 + static_cast<int>(index) * panel_;
    const bool is_lowest = index + 1 == curves_.panels.size();
    add_area(top, top + panel_ - kGap, kLeft, kRight);
    std::string label = panel.measure;
    std::replace(label.begin(), label.end(), '_', ' ');
    fmt::format_to(std::back_inserter(text_), "set label 1 {} at screen {},{} center rotate\n", literal(label),
                   16.0 / kWidth, down(top + (panel_ - kGap) / 2.0));
    text_ += is_lowest ? "set format x '%g'\nset xlabel " + literal(curves_.x_label) + " offset 0,0.4\n"
                       : std::string("set format x ''\n");
    std::vector<std::string> plots;
    for (const Curve& curve : panel.curves) {
      plots.push_back(add_data(thinned(curve.series, kMostPoints)) + " with " + style_of(curve, curves_.runs));
    }
    add_plots(plots);
  }

  const Curves& curves_;
  std::vector<const Curve*> legend_;
  int column_ = 0, columns_ = 1, legend_height_ = 0, panel_ = 0, height_ = 0;
  int blocks_ = 0;
  std::string data_, text_;
};

}  // namespace

Picture picture_of(const Curves& curves) {
  return CurveScript(curves).picture();
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
