#include "fovea/core/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "fovea/core/display.h"

namespace fovea {
namespace {

constexpr int64_t kLeastWidth = 16;
constexpr int64_t kLeastHeight = 2;
constexpr std::string_view kMarks = "*+ox#@%&";
// Colours of 256 next to those of Okabe and Ito: blue, vermillion, green, orange, sky blue, purple.
constexpr std::array<int, 6> kColours = {32, 166, 36, 214, 74, 175};
constexpr int64_t kAcross = 2, kDown = 4;  // dots of a braille character

std::string in_colour(const std::string& text, size_t style, bool colour) {
  return colour ? fmt::format("\x1b[38;5;{}m{}\x1b[0m", kColours[style % kColours.size()], text) : text;
}

char mark_of(size_t style) {
  return kMarks[style % kMarks.size()];
}

std::string repeated(std::string_view text, int64_t times) {
  std::string result;
  for (int64_t i = 0; i < times; ++i) result += text;
  return result;
}

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// The area that curves are drawn in: cells, each with dots or one mark, of the series drawn last there.
class Canvas {
 public:
  Canvas(int64_t columns, int64_t rows, bool dotted)
      : columns_(columns), rows_(rows), across_(dotted ? kAcross : 1), down_(dotted ? kDown : 1) {
    cells_.resize(static_cast<size_t>(columns * rows));
  }

  void draw(const Series& series, const Range& x, const Range& y) {
    const auto place = [](double value, const Range& range, int64_t dots) {
      return std::llround((value - range.low) / (range.high - range.low) * static_cast<double>(dots - 1));
    };
    bool has_before = false;
    int64_t before_x = 0, before_y = 0;
    for (size_t i = 0; i < series.x.size(); ++i) {
      const bool is_point = std::isfinite(series.x[i]) && std::isfinite(series.y[i]);
      if (is_point) {
        const int64_t at_x = place(series.x[i], x, columns_ * across_);
        const int64_t at_y = rows_ * down_ - 1 - place(series.y[i], y, rows_ * down_);
        line(has_before ? before_x : at_x, has_before ? before_y : at_y, at_x, at_y, series.style);
        before_x = at_x;
        before_y = at_y;
      }
      has_before = is_point;
    }
  }

  std::string row(int64_t index, bool colour) const {
    std::string text, same;  // `same`: what is of one style and not yet in `text`
    const auto begin = cells_.begin() + index * columns_;
    auto end = begin + columns_;
    while (end != begin && (end - 1)->dots == 0) --end;
    for (auto cell = begin; cell != end; ++cell) {
      same += cell->dots == 0 ? " " : down_ > 1 ? braille(cell->dots) : std::string(1, mark_of(cell->style));
      const auto next = cell + 1;
      if (next != end && (next->dots == 0) == (cell->dots == 0) && next->style == cell->style) continue;
      text += cell->dots == 0 ? same : in_colour(same, cell->style, colour);
      same.clear();
    }
    return text;
  }

 private:
  struct Cell {
    unsigned dots = 0;  // braille's bits; 1 for a mark
    size_t style = 0;
  };

  // Bresenham's.
  void line(int64_t x, int64_t y, int64_t to_x, int64_t to_y, size_t style) {
    const int64_t dx = std::abs(to_x - x), dy = -std::abs(to_y - y);
    const int64_t step_x = x < to_x ? 1 : -1, step_y = y < to_y ? 1 : -1;
    for (int64_t error = dx + dy;;) {
      set(x, y, style);
      if (x == to_x && y == to_y) return;
      const int64_t twice = 2 * error;
      if (twice >= dy) {
        error += dy;
        x += step_x;
      }
      if (twice <= dx) {
        error += dx;
        y += step_y;
      }
    }
  }

  void set(int64_t x, int64_t y, size_t style) {
    static constexpr unsigned kBits[kDown][kAcross] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell& cell = cells_[static_cast<size_t>(y / down_ * columns_ + x / across_)];
    cell.dots |= down_ > 1 ? kBits[y % down_][x % across_] : 1;
    cell.style = style;
  }

  int64_t columns_, rows_, across_, down_;
  std::vector<Cell> cells_;
};

// The line below the axis: ticks centred below their columns where there is room, and the label at the end.
std::string ticks_line(const Range& x, int64_t columns, const std::string& label) {
  std::string line;
  const int64_t room = columns - (label.empty() ? 0 : display_width(label) + 2);
  constexpr int64_t kTickRoom = 9;
  for (const double tick : round_ticks(x, static_cast<int>(std::max<int64_t>(columns / kTickRoom, 3)))) {
    const std::string text = tick_text(tick);
    const auto width = static_cast<int64_t>(text.size());
    const auto column =
        std::llround((tick - x.low) / (x.high - x.low) * static_cast<double>(columns - 1)) - (width - 1) / 2;
    const int64_t begin = std::max<int64_t>(column, 0);
    if (begin + width > room || (!line.empty() && begin <= static_cast<int64_t>(line.size()))) continue;
    line.resize(static_cast<size_t>(begin), ' ');
    line += text;
  }
  if (!label.empty() && static_cast<int64_t>(line.size()) <= room && room > 0) {
    line.resize(static_cast<size_t>(room + 2), ' ');
    line += label;
  }
  return line;
}

// Samples and names in as many lines as they need.
std::vector<std::string> legend_lines(const std::vector<Series>& series, int64_t width, bool dotted, bool colour) {
  constexpr int64_t kSample = 2, kGap = 2;
  std::vector<std::string> lines;
  int64_t used = 0;
  for (const Series& one : series) {
    const std::string name = fit_width(one_line(one.name), width - kSample - 1);
    const std::string sample = dotted ? "⠒⠒" : std::string(1, mark_of(one.style));
    const int64_t wide = (dotted ? 2 : 1) + 1 + display_width(name);
    const bool fits = !lines.empty() && used + kGap + wide <= width;
    if (!fits) {
      lines.emplace_back();
      used = 0;
    } else {
      lines.back() += std::string(kGap, ' ');
      used += kGap;
    }
    lines.back() += in_colour(sample, one.style, colour) + " " + name;
    used += wide;
  }
  return lines;
}

std::vector<double> all_values(const std::vector<Series>& series, std::vector<double> Series::*values) {
  std::vector<double> all;
  for (const Series& one : series) all.insert(all.end(), (one.*values).begin(), (one.*values).end());
  return all;
}

}  // namespace

std::vector<std::string> chart_lines(const std::vector<Series>& series, const ChartOptions& options) {
  const auto x = range_of(all_values(series, &Series::x)), y = range_of(all_values(series, &Series::y));
  if (!x || !y || options.width < kLeastWidth || options.height < kLeastHeight) return {};
  const bool dotted = options.utf8 && (options.colour || series.size() == 1);

  // Labels of the rows that the ticks fall on.
  constexpr int64_t kRowsPerTick = 2;
  std::vector<std::string> labels(static_cast<size_t>(options.height));
  int64_t label_width = 0;
  for (const double tick : round_ticks(*y, static_cast<int>(std::max<int64_t>(options.height / kRowsPerTick, 2)))) {
    const double share = (tick - y->low) / (y->high - y->low);
    const auto row = options.height - 1 - std::llround(share * static_cast<double>(options.height - 1));
    labels[static_cast<size_t>(row)] = tick_text(tick);
    label_width = std::max(label_width, static_cast<int64_t>(tick_text(tick).size()));
  }
  const int64_t columns = options.width - label_width - 2;
  if (columns < kLeastWidth / 2) return {};

  Canvas canvas(columns, options.height, dotted);
  for (const Series& one : series) canvas.draw(one, *x, *y);

  const std::string margin(static_cast<size_t>(label_width + 2), ' ');
  std::vector<std::string> lines;
  if (!options.title.empty()) lines.push_back(fit_width(one_line(options.title), options.width));
  for (int64_t row = 0; row < options.height; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    const std::string axis = options.utf8 ? (label.empty() ? "│" : "┤") : "|";
    lines.push_back(fmt::format("{:>{}} {}{}", label, label_width, axis, canvas.row(row, options.colour)));
  }
  lines.push_back(margin.substr(1) + (options.utf8 ? "└" + repeated("─", columns) : "+" + repeated("-", columns)));
  lines.push_back(margin + ticks_line(*x, columns, options.x_label));
  for (auto& line : legend_lines(series, options.width, dotted, options.colour)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace fovea
