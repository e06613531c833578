#include "fovea/core/table.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "fovea/core/display.h"

namespace fovea {
namespace {

constexpr int64_t kGap = 3;        // spaces between columns
constexpr int64_t kNarrowGap = 2;  // where the table must be made narrower
constexpr int64_t kNarrowestText = 8;
constexpr int64_t kNarrowest = 3;

std::string spaces(int64_t count) {
  return std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' ');
}

int64_t sum(const std::vector<int64_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), int64_t{0});
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add_row(const std::vector<std::string>& cells) {
  Row row;
  for (const std::string& cell : cells) row.cells.push_back(one_line(cell));
  rows_.push_back(std::move(row));
}

void Table::add_title(const std::string& text) {
  rows_.push_back({.cells = {one_line(text)}, .is_title = true});
}

std::vector<int64_t> Table::natural_widths() const {
  std::vector<int64_t> widths;
  const auto look_at = [&widths](const std::vector<std::string>& cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
  };
  look_at(options_.header);
  for (const Row& row : rows_) {
    if (!row.is_title) look_at(row.cells);
  }
  return widths;
}

std::vector<int64_t> Table::word_widths() const {
  std::vector<int64_t> widths;
  for (const Row& row : rows_) {
    if (row.is_title) continue;
    widths.resize(std::max(widths.size(), row.cells.size()));
    for (size_t i = 0; i < row.cells.size(); ++i) {
      std::istringstream words(row.cells[i]);
      for (std::string word; words >> word;) widths[i] = std::max(widths[i], display_width(word));
    }
  }
  widths.resize(std::max(widths.size(), options_.header.size()));
  return widths;
}

std::vector<int64_t> Table::fitted(std::vector<int64_t> widths, int64_t gap) const {
  const int64_t room = options_.width - options_.indent - gap * (static_cast<int64_t>(widths.size()) - 1);
  // Takes from the widest of the columns that may give way, until all fit or none is left.
  const auto shrink = [&](bool numbers_too, const std::vector<int64_t>& narrowest) {
    while (sum(widths) > room) {
      size_t widest = widths.size();
      for (size_t i = 0; i < widths.size(); ++i) {
        if (widths[i] <= narrowest[i] || (is_right(i) && !numbers_too)) continue;
        if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
      }
      if (widest == widths.size()) return;
      --widths[widest];
    }
  };
  for (int64_t& width : widths) width = std::min(width, std::max(options_.width, kNarrowest));
  std::vector<int64_t> words = word_widths();
  for (int64_t& width : words) width = std::max(width, kNarrowestText);
  shrink(false, words);
  shrink(false, std::vector<int64_t>(widths.size(), kNarrowestText));
  shrink(true, std::vector<int64_t>(widths.size(), kNarrowest));
  return widths;
}

std::string Table::str() const {
  std::vector<int64_t> widths = natural_widths();
  int64_t gap = kGap;
  const int64_t gaps = std::max<int64_t>(static_cast<int64_t>(widths.size()) - 1, 0);
  if (options_.width > 0 && options_.indent + sum(widths) + gaps * kGap > options_.width) {
    gap = kNarrowGap;
    widths = fitted(std::move(widths), gap);
  }

  std::string text;
  const auto print = [&](const std::vector<std::string>& cells) {
    std::vector<std::vector<std::string>> wrapped;
    size_t height = 1;
    for (size_t i = 0; i < cells.size(); ++i) {
      wrapped.push_back(wrap_width(cells[i], widths[i]));
      height = std::max(height, wrapped.back().size());
    }
    for (size_t at = 0; at < height; ++at) {
      std::string line = spaces(options_.indent);
      for (size_t i = 0; i < wrapped.size(); ++i) {
        const std::string cell = at < wrapped[i].size() ? wrapped[i][at] : std::string();
        const std::string padding = spaces(widths[i] - display_width(cell));
        if (i > 0) line += spaces(gap);
        line += is_right(i) ? padding + cell : cell + padding;
      }
      text += without_trailing_spaces(line) + "\n";
    }
  };
  if (!options_.header.empty()) {
    print(options_.header);
    std::vector<std::string> rule;
    for (const int64_t width : widths) rule.emplace_back(static_cast<size_t>(width), '-');
    if (options_.rule) print(rule);
  }
  for (const Row& row : rows_) {
    if (!row.is_title) {
      print(row.cells);
      continue;
    }
    text += "\n";
    for (const std::string& line : wrap_width(row.cells[0], options_.width > 0 ? options_.width : kUnlimitedWidth)) {
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace fovea
