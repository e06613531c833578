#include "fovea/plot/panel_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "fovea/core/display.h"

namespace fovea::plot {
namespace {

constexpr size_t kMostPoints = 2000;  // of a curve: more are not seen
constexpr int kWidth = 800, kLeft = 92, kRight = 28, kTop = 10, kBottom = 58, kGap = 26;  // pixels
constexpr int kLegendRow = 20, kSample = 44, kCharacter = 7;
constexpr int kPanel = 240, kLowPanel = 180;  // with up to two, with more
constexpr double kSlant = 0.7;                // of names that do not fit side by side: sin 45 degrees
constexpr int64_t kLongestName = 24;          // characters of a name below the axis
constexpr size_t kDashes = 5;                 // that gnuplot tells apart

int mark(size_t index) {
  constexpr std::array<int, 5> kMarks = {7, 5, 9, 13, 11};
  return kMarks[index % kMarks.size()];
}

// A style's colour without the rest of it: "lc rgb '#a1b2c3'".
std::string colour_in(const std::string& style) {
  const size_t begin = style.find("lc rgb '"), quote = style.find('\'', begin);
  return style.substr(begin, style.find('\'', quote + 1) + 1 - begin);
}

// Commands and data of a gnuplot script, and how much of the height is used.
class PanelScript {
 public:
  explicit PanelScript(const PanelFigure& figure) : figure_(figure) {
    int64_t longest = 1;
    for (const Trace& trace : figure.legend) longest = std::max(longest, display_width(trace.series.name));
    const auto entries = static_cast<int>(figure.legend.size());
    has_legend_ = entries > 0;
    column_ = std::min<int>(kWidth - kLeft, kSample + static_cast<int>(longest + 2) * kCharacter);
    columns_ = std::clamp<int>((kWidth - kLeft) / column_, 1, std::max(entries, 1));
    legend_height_ = has_legend_ ? (entries + columns_ - 1) / columns_ * kLegendRow : 0;
    panel_ = figure.panels.size() > 2 ? kLowPanel : kPanel;
    int64_t name = 0;
    for (const auto& text : figure.x_names) name = std::max(name, std::min(display_width(text), kLongestName));
    const auto room = static_cast<size_t>(kWidth - kLeft - kRight) / std::max<size_t>(figure.x_names.size(), 1);
    is_slanted_ = static_cast<size_t>(name + 1) * kCharacter > room;
    names_height_ = is_slanted_ ? static_cast<int>(kSlant * static_cast<double>(name) * kCharacter) : 0;
    height_ = kTop + legend_height_ + kGap / 2 + static_cast<int>(figure.panels.size()) * panel_ + kBottom - kGap +
              names_height_;
  }

  Picture picture() {
    text_ += "set multiplot\nunset key\n";
    if (has_legend_) add_legend();
    text_ +=
        "unset label\nset border 3 lc '#606060'\nset xtics nomirror out scale 0.5\n"
        "set ytics nomirror out scale 0.5\nset grid ytics lt 1 lc '#e4e4e4' lw 0.6\n";
    fmt::format_to(std::back_inserter(text_), "set xrange [{}:{}]\n", figure_.x_range.low, figure_.x_range.high);
    if (figure_.log_x) text_ += "set logscale x\n";
    for (size_t i = 0; i < figure_.panels.size(); ++i) add_panel(i);
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

  // The name of a block with these points; bars of no height where they have no spread.
  std::string add_data(const Series& series, const std::vector<double>& spread = {}) {
    const std::string name = fmt::format("$curve{}", blocks_++);
    data_ += name + " << EOD\n";
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.y[i])) {
        data_ += "\n";  // breaks the curve
      } else if (spread.empty()) {
        data_ += fmt::format("{} {}\n", series.x[i], series.y[i]);
      } else {
        data_ += fmt::format("{} {} {}\n", series.x[i], series.y[i], std::isfinite(spread[i]) ? spread[i] : 0.0);
      }
    }
    data_ += "EOD\n";
    return name;
  }

  void add_plots(const std::vector<std::string>& plots) {
    // Without one gnuplot draws no axes.
    text_ += plots.empty() ? "plot NaN\n" : fmt::format("plot {}\n", fmt::join(plots, ", "));
  }

  // Samples and names, placed by hand: gnuplot's own key covers curves where names are long.
  void add_legend() {
    text_ += "unset border\nunset tics\n";
    add_area(kTop, kTop + legend_height_, kLeft, 0);
    fmt::format_to(std::back_inserter(text_), "set xrange [0:{}]\nset yrange [{}:0]\n", kWidth - kLeft, legend_height_);
    std::vector<std::string> plots;
    const int64_t room = (column_ - kSample) / kCharacter;
    for (size_t i = 0; i < figure_.legend.size(); ++i) {
      const Trace& entry = figure_.legend[i];
      const int x = static_cast<int>(i) % columns_ * column_;
      const int y = static_cast<int>(i) / columns_ * kLegendRow + kLegendRow / 2;
      fmt::format_to(std::back_inserter(text_), "set label {} at {},{} left\n",
                     literal(fit_width(entry.series.name, room)), x + kSample, y);
      Series sample;
      for (const int at : {0, kSample / 2 - 4, kSample - 8}) sample.add(x + at, y);
      plots.push_back(add_data(sample) + " with " + entry.style);
    }
    add_plots(plots);
  }

  double place(size_t name) const {
    return figure_.x_places.empty() ? static_cast<double>(name) : figure_.x_places[name];
  }

  // Names in place of numbers, or whatever numbers gnuplot finds fit.
  void add_ticks() {
    if (figure_.x_names.empty()) {
      text_ += "set format x '%g'\n";
      return;
    }
    std::vector<std::string> ticks;
    for (size_t i = 0; i < figure_.x_names.size(); ++i) {
      ticks.push_back(fmt::format("{} {}", literal(fit_width(figure_.x_names[i], kLongestName)), place(i)));
    }
    fmt::format_to(std::back_inserter(text_), "set xtics{} ({})\n", is_slanted_ ? " rotate by 45 right" : "",
                   fmt::join(ticks, ", "));
  }

  // The panels above the lowest have ticks without text.
  void hide_ticks() {
    text_ += "set format x ''\n";
    if (figure_.x_names.empty()) return;
    std::vector<std::string> ticks;
    for (size_t i = 0; i < figure_.x_names.size(); ++i) ticks.push_back(fmt::format("'' {}", place(i)));
    fmt::format_to(std::back_inserter(text_), "set xtics ({})\n", fmt::join(ticks, ", "));
  }

  void add_panel(size_t index) {
    const PanelFigure::Panel& panel = figure_.panels[index];
    const int top = kTop + legend_height_ + kGap / 2 + static_cast<int>(index) * panel_;
    const bool is_lowest = index + 1 == figure_.panels.size();
    add_area(top, top + panel_ - kGap, kLeft, kRight);
    std::string label = panel.label;
    std::replace(label.begin(), label.end(), '_', ' ');
    fmt::format_to(std::back_inserter(text_), "set label 1 {} at screen {},{} center rotate\n", literal(label),
                   16.0 / kWidth, down(top + (panel_ - kGap) / 2.0));
    text_ += panel.log_y ? "set logscale y\n" : "unset logscale y\n";
    text_ += "set yrange [*:*]\n";
    if (is_lowest) {
      add_ticks();
      fmt::format_to(std::back_inserter(text_), "set xlabel {} offset 0,0.4\n", literal(figure_.x_label));
    } else {
      hide_ticks();
    }
    std::vector<std::string> plots;
    for (const Trace& trace : panel.traces) {
      // First, as gnuplot leaves a hole around their middle.
      if (!trace.spread.empty()) {
        plots.push_back(add_data(trace.series, trace.spread) + " with yerrorbars ps 0 " + colour_in(trace.style));
      }
      plots.push_back(add_data(thinned(trace.series, kMostPoints)) + " with " + trace.style);
    }
    add_plots(plots);
  }

  const PanelFigure& figure_;
  bool has_legend_ = false, is_slanted_ = false;
  int column_ = 0, columns_ = 1, legend_height_ = 0, panel_ = 0, names_height_ = 0, height_ = 0;
  int blocks_ = 0;
  std::string data_, text_;
};

}  // namespace

Picture picture_of(const PanelFigure& figure) {
  return PanelScript(figure).picture();
}

std::string line_style(size_t index, size_t colour) {
  return fmt::format("lines lc rgb '{}' dt {}", colour_of(colour), index % kDashes + 1);
}

std::string marked_style(size_t index, size_t colour, size_t points_apart) {
  return fmt::format("linespoints lc rgb '{}' dt {} lw 1.6 pt {} ps 0.6 pointinterval {}", colour_of(colour),
                     index % kDashes + 1, mark(index), points_apart);
}

std::string point_style(size_t index, size_t colour) {
  return fmt::format("points lc rgb '{}' lw 1.6 pt {} ps 0.8", colour_of(colour), mark(index));
}

}  // namespace fovea::plot
