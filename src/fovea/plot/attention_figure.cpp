#include "fovea/plot/attention_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "fovea/core/display.h"
#include "fovea/core/error.h"

namespace fovea::plot {
namespace {

constexpr int64_t kGlyph = 8;              // pixels that a character takes in the axes' font
constexpr int64_t kLine = 16;              // pixels of a line of text
constexpr int64_t kMostLabelColumns = 14;  // longer tokens are cut
constexpr int64_t kTokenSide = 400;        // pixels of a heatmap of tokens, unless a cell gets too small or too large
constexpr int64_t kMapSide = 112;          // of a picture below weights
constexpr int64_t kMostPixels = 64;        // of a picture, each side; a larger one is drawn more coarsely
constexpr int64_t kPanelGap = 14, kMargin = 12, kBarWidth = 14, kBarLabels = 48;

struct Colour {
  double r = 0, g = 0, b = 0;
};

Colour at_share(double share) {
  static constexpr std::array<Colour, 6> kStops = {
      {{255, 255, 255}, {222, 235, 247}, {158, 202, 225}, {66, 146, 198}, {8, 81, 156}, {8, 38, 86}}};
  const double place = std::clamp(share, 0.0, 1.0) * (kStops.size() - 1);
  const auto low = std::min(static_cast<size_t>(place), kStops.size() - 2);
  const double rest = place - static_cast<double>(low);
  const auto mix = [rest](double a, double b) { return a + (b - a) * rest; };
  const Colour &a = kStops[low], &b = kStops[low + 1];
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

uint32_t packed(const Colour& c) {
  const auto byte = [](double v) { return static_cast<uint32_t>(std::clamp(v + 0.5, 0.0, 255.0)); };
  return byte(c.r) << 16 | byte(c.g) << 8 | byte(c.b);
}

std::string short_label(const std::string& label) {
  return fit_width(one_line(label), kMostLabelColumns);
}

int64_t widest(const std::vector<std::string>& labels) {
  int64_t most = 1;
  for (const auto& label : labels) most = std::max(most, std::min(display_width(label), kMostLabelColumns));
  return most * kGlyph + 8;
}

// Coloured cells with labels, at a place on the canvas. y grows downwards.
struct HeatPanel {
  int64_t x = 0, y = 0, width = 0, height = 0;
  std::string title = {};
  int64_t rows = 0, columns = 0;
  std::vector<uint32_t> cells = {};                              // (rows, columns), 0xRRGGBB
  std::vector<std::string> row_labels = {}, column_labels = {};  // empty: none
};

// Labels of cells `cell` pixels wide: every one, or so many apart that they do not overlap.
std::string ticks(const std::vector<std::string>& labels, double cell) {
  const auto step = static_cast<size_t>(std::max(1.0, std::ceil((kLine - 2) / cell)));
  std::string text;
  for (size_t i = 0; i < labels.size(); i += step) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", literal(short_label(labels[i])), i);
  }
  return "(" + text + ")";
}

class Canvas {
 public:
  void add(HeatPanel panel) { panels_.push_back(std::move(panel)); }
  void text(int64_t x, int64_t y, const std::string& words) { texts_.push_back({x, y, words}); }
  void bar(int64_t x, int64_t y, int64_t height, double greatest, const std::string& scale) {
    bar_ = {x, y, height, greatest, scale};
  }

  Picture drawn(int64_t width, int64_t height) const {
    const auto across = [&](int64_t x) { return static_cast<double>(x) / static_cast<double>(width); };
    const auto up = [&](int64_t y) { return 1 - static_cast<double>(y) / static_cast<double>(height); };
    std::string out =
        "set multiplot\nunset key\nset tics scale 0 textcolor rgb '#222222'\nset border lw 0.5 lc rgb '#888888'\n";
    int number = 0;
    const auto place = [&](int64_t x, int64_t y, int64_t w, int64_t h) {
      return fmt::format(
          "set lmargin at screen {:.6f}; set rmargin at screen {:.6f}\n"
          "set tmargin at screen {:.6f}; set bmargin at screen {:.6f}\n",
          across(x), across(x + w), up(y), up(y + h));
    };
    for (const auto& t : texts_) {
      out += fmt::format("set label {} {} at screen {:.6f},{:.6f} left\n", ++number, literal(t.words), across(t.x),
                         up(t.y));
    }
    for (const auto& p : panels_) {
      out += fmt::format("$p{} << EOD\n", ++number);
      // gnuplot knows the size of a cell from its neighbour: a single row or column is drawn as two halves.
      const int64_t down = p.rows == 1 ? 2 : 1, side = p.columns == 1 ? 2 : 1;
      const auto place_of = [](int64_t i, int64_t parts) {
        return (static_cast<double>(i) + 0.5) / static_cast<double>(parts) - 0.5;
      };
      for (int64_t r = 0; r < p.rows * down; ++r) {
        for (int64_t c = 0; c < p.columns * side; ++c) {
          const uint32_t colour = p.cells[static_cast<size_t>(r / down * p.columns + c / side)];
          out += fmt::format("{} {} {} {} {}\n", place_of(c, side), place_of(r, down), colour >> 16, colour >> 8 & 255,
                             colour & 255);
        }
      }
      out += "EOD\n" + place(p.x, p.y, p.width, p.height);
      out += fmt::format("set xrange [-0.5:{}]\nset yrange [{}:-0.5]\n", p.columns - 0.5, p.rows - 0.5);
      out += p.title.empty() ? "unset title\n" : fmt::format("set title {} offset 0,-0.7\n", literal(p.title));
      const double cell_width = static_cast<double>(p.width) / static_cast<double>(p.columns);
      const double cell_height = static_cast<double>(p.height) / static_cast<double>(p.rows);
      out += p.column_labels.empty() ? "unset xtics\n"
                                     : "set xtics rotate by 90 right " + ticks(p.column_labels, cell_width) + "\n";
      out += p.row_labels.empty() ? "unset ytics\n" : "set ytics " + ticks(p.row_labels, cell_height) + "\n";
      out += fmt::format("plot $p{} with rgbimage\nunset label\n", number);
    }
    if (bar_.height > 0) {
      out += "$bar << EOD\n";
      for (int i = 0; i < 64; ++i) {
        const uint32_t colour = packed(at_share((i + 0.5) / 64));
        for (const int column : {0, 1}) {
          out += fmt::format("{} {} {} {} {}\n", column, bar_.greatest * (i + 0.5) / 64, colour >> 16,
                             colour >> 8 & 255, colour & 255);
        }
      }
      out += "EOD\n" + place(bar_.x, bar_.y, kBarWidth, bar_.height);
      out += fmt::format(
          "set xrange [-0.5:1.5]\nset yrange [0:{}]\nunset xtics\nunset ytics\nset title {} offset 0,-0.7\n"
          "set y2range [0:{}]\nset y2tics\nset format y2 '%.3g'\n",
          bar_.greatest, literal(bar_.scale), bar_.greatest);
      out += "plot $bar with rgbimage\n";
    }
    return {.width = static_cast<int>(width), .height = static_cast<int>(height), .script = out + "unset multiplot\n"};
  }

 private:
  struct Text {
    int64_t x, y;
    std::string words;
  };
  struct Bar {
    int64_t x = 0, y = 0, height = 0;
    double greatest = 1;
    std::string scale = {};
  };
  std::vector<HeatPanel> panels_;
  std::vector<Text> texts_;
  Bar bar_;
};

// An attention that is drawn, and which one of its group it is, from 1.
struct Chosen {
  const tasks::Report::Attention* attention;
  int64_t layer;
};

std::vector<Chosen> choose(const tasks::Report& report, const AttentionFigureOptions& options) {
  std::vector<Chosen> chosen;
  std::map<std::string, int64_t> layers;
  int64_t most_heads = 0;
  for (const auto& attention : report.attentions) {
    const int64_t layer = ++layers[attention.group];
    if (!options.group.empty() && attention.group != options.group) continue;
    if (options.layer != 0 && layer != options.layer) continue;
    most_heads = std::max(most_heads, attention.heads);
    if (options.head > attention.heads) continue;
    chosen.push_back({&attention, layer});
  }
  if (!chosen.empty()) return chosen;
  std::string there;
  for (const auto& [group, count] : layers)
    there += fmt::format("{}{} ({} of them)", there.empty() ? "" : ", ", group, count);
  if (most_heads > 0) fail_usage("--head: there are {} heads, got {}", most_heads, options.head);
  fail_usage("--group, --layer: nothing of that name and number; there are {}", there);
}

// Of each head the weights of the patches, (heads, rows * columns): what the class token looks at, or all tokens.
std::vector<float> patch_weights(const tasks::Report::Attention& a, int64_t head) {
  const auto patches = static_cast<size_t>(a.grid_rows * a.grid_columns);
  const size_t own = a.keys.size() - patches;
  const bool has_class_token = own > 0 && a.queries.size() > 1;
  const size_t queries = has_class_token ? 1 : a.queries.size();
  std::vector<float> mean(patches, 0.0F);
  for (size_t q = 0; q < queries; ++q) {
    for (size_t k = 0; k < patches; ++k) mean[k] += a.weight(head, q, own + k) / static_cast<float>(queries);
  }
  return mean;
}

std::string title_of(const Chosen& c) {
  const auto& a = *c.attention;
  if (a.key == a.group || !a.head_names.empty()) return a.key;
  return fmt::format("{} {}: {}", a.group, c.layer, a.key);
}

// Brightness of the picture at a place, both 0 to 1.
double brightness(const tasks::Report::Picture& p, double y, double x) {
  const auto row = std::min(static_cast<int64_t>(y * static_cast<double>(p.height)), p.height - 1);
  const auto column = std::min(static_cast<int64_t>(x * static_cast<double>(p.width)), p.width - 1);
  double sum = 0;
  for (int64_t c = 0; c < p.channels; ++c)
    sum += p.pixels[static_cast<size_t>((c * p.height + row) * p.width + column)];
  return sum / (255.0 * static_cast<double>(p.channels));
}

bool is_bright(const tasks::Report::Picture& p) {
  double sum = 0;
  for (const uint8_t pixel : p.pixels) sum += pixel;
  return sum > 127.5 * static_cast<double>(p.pixels.size());
}

HeatPanel picture_panel(const tasks::Report::Picture& p) {
  HeatPanel panel{.width = kMapSide,
                  .height = kMapSide,
                  .title = "input",
                  .rows = std::min(p.height, kMostPixels),
                  .columns = std::min(p.width, kMostPixels)};
  for (int64_t r = 0; r < panel.rows; ++r) {
    for (int64_t c = 0; c < panel.columns; ++c) {
      const auto at = [&](int64_t channel) -> uint32_t {
        const int64_t y = r * p.height / panel.rows, x = c * p.width / panel.columns;
        return p.pixels[static_cast<size_t>((channel * p.height + y) * p.width + x)];
      };
      panel.cells.push_back(p.channels == 3 ? at(0) << 16 | at(1) << 8 | at(2) : at(0) * 0x010101);
    }
  }
  return panel;
}

// Weights of patches over the picture. What is not its background, mostly dark or mostly bright, darkens them.
HeatPanel map_panel(const tasks::Report::Attention& a, int64_t head, double greatest,
                    const std::optional<tasks::Report::Picture>& picture) {
  const auto weights = patch_weights(a, head);
  const double background = picture && is_bright(*picture) ? 1 : 0;
  HeatPanel panel{.width = kMapSide,
                  .height = kMapSide,
                  .rows = picture ? std::min(picture->height, kMostPixels) : a.grid_rows,
                  .columns = picture ? std::min(picture->width, kMostPixels) : a.grid_columns};
  for (int64_t r = 0; r < panel.rows; ++r) {
    for (int64_t c = 0; c < panel.columns; ++c) {
      const int64_t patch = r * a.grid_rows / panel.rows * a.grid_columns + c * a.grid_columns / panel.columns;
      const Colour colour = at_share(weights[static_cast<size_t>(patch)] / greatest);
      const double y = (static_cast<double>(r) + 0.5) / static_cast<double>(panel.rows);
      const double x = (static_cast<double>(c) + 0.5) / static_cast<double>(panel.columns);
      const double light = picture ? 1 - 0.3 * std::abs(brightness(*picture, y, x) - background) : 1.0;
      panel.cells.push_back(packed({colour.r * light, colour.g * light, colour.b * light}));
    }
  }
  return panel;
}

std::pair<int64_t, int64_t> drawn_heads(const tasks::Report::Attention& a, const AttentionFigureOptions& options) {
  if (options.head == 0) return {0, a.heads};
  return {options.head - 1, options.head};
}

double greatest_weight(const std::vector<Chosen>& chosen, const AttentionFigureOptions& options) {
  double greatest = 0;
  for (const auto& c : chosen) {
    const auto [first, last] = drawn_heads(*c.attention, options);
    for (int64_t h = first; h < last; ++h) {
      if (c.attention->grid_rows > 0) {
        for (const float w : patch_weights(*c.attention, h)) greatest = std::max<double>(greatest, w);
        continue;
      }
      for (size_t q = 0; q < c.attention->queries.size(); ++q) {
        for (size_t k = 0; k < c.attention->keys.size(); ++k)
          greatest = std::max<double>(greatest, c.attention->weight(h, q, k));
      }
    }
  }
  return greatest > 0 ? greatest : 1;
}

std::string head_title(const tasks::Report::Attention& a, int64_t head) {
  if (!a.head_names.empty()) return a.head_names[static_cast<size_t>(head)];
  return a.heads == 1 ? std::string() : fmt::format("head {}", head + 1);
}

// Tokens on both axes.
HeatPanel token_panel(const tasks::Report::Attention& a, int64_t head, double greatest, bool has_row_labels) {
  HeatPanel panel{.rows = static_cast<int64_t>(a.queries.size()), .columns = static_cast<int64_t>(a.keys.size())};
  const auto length = [](int64_t cells) { return cells * std::clamp<int64_t>(kTokenSide / cells, 4, 20); };
  panel.width = length(panel.columns);
  panel.height = length(panel.rows);
  for (size_t q = 0; q < a.queries.size(); ++q) {
    for (size_t k = 0; k < a.keys.size(); ++k) panel.cells.push_back(weight_colour(a.weight(head, q, k) / greatest));
  }
  panel.column_labels = a.keys;
  if (has_row_labels) panel.row_labels = a.queries;
  return panel;
}

// Panels side by side, under a common title.
struct Row {
  std::string title;
  std::vector<HeatPanel> panels = {};
};

}  // namespace

uint32_t weight_colour(double share) {
  return packed(at_share(share));
}

Picture attention_figure(const tasks::Report& report, const AttentionFigureOptions& options) {
  const auto chosen = choose(report, options);
  const double greatest = greatest_weight(chosen, options);
  std::vector<Row> rows;
  for (const auto& c : chosen) {
    const auto [first, last] = drawn_heads(*c.attention, options);
    const bool is_map = c.attention->grid_rows > 0;
    const bool is_single_map = is_map && c.attention->heads == 1;
    // Maps without heads stand side by side, under their own names.
    const bool joins_row =
        options.side_by_side ? !rows.empty() : is_single_map && !rows.empty() && rows.back().title.empty();
    if (!joins_row) {
      rows.push_back({.title = is_single_map || options.side_by_side ? "" : title_of(c)});
      if (is_map && report.picture && rows.size() == 1) rows.back().panels.push_back(picture_panel(*report.picture));
    }
    for (int64_t h = first; h < last; ++h) {
      HeatPanel panel = is_map ? map_panel(*c.attention, h, greatest, report.picture)
                               : token_panel(*c.attention, h, greatest, /*has_row_labels=*/h == first);
      panel.title = options.side_by_side ? c.attention->key
                    : is_single_map      ? c.attention->group
                                         : head_title(*c.attention, h);
      rows.back().panels.push_back(std::move(panel));
    }
  }
  Canvas canvas;
  int64_t y = kMargin, right = 0;
  for (auto& row : rows) {
    if (!row.title.empty()) {
      canvas.text(kMargin, y + kLine / 2, row.title);
      y += kLine;
    }
    y += kLine;  // the panels' own titles
    int64_t x = kMargin, below = y;
    for (auto& panel : row.panels) {
      if (!panel.row_labels.empty()) x += widest(panel.row_labels);
      panel.x = x;
      panel.y = y;
      // A long title may be wider than its panel.
      x += std::max(panel.width, display_width(panel.title) * kGlyph) + kPanelGap;
      below = std::max(below, y + panel.height + (panel.column_labels.empty() ? 0 : widest(panel.column_labels)));
      canvas.add(std::move(panel));
    }
    right = std::max(right, x);
    y = below + kPanelGap;
  }
  const int64_t bar_top = kMargin + 2 * kLine, bar_height = std::clamp<int64_t>(y - bar_top - kPanelGap, 120, 240);
  canvas.bar(right + kPanelGap, bar_top, bar_height, greatest, options.scale);
  return canvas.drawn(right + kPanelGap + kBarWidth + kBarLabels + kMargin,
                      std::max(y, bar_top + bar_height + kPanelGap));
}

}  // namespace fovea::plot
