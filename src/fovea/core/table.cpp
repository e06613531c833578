#include "fovea/core/table.h"

#include <algorithm>
#include <limits>

#include "fovea/core/display.h"

namespace fovea {
namespace {

constexpr size_t kGap = 3;  // spaces between columns

std::string spaces(int64_t count) {
  return std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' ');
}

}  // namespace

void Table::add_row(const std::vector<std::string>& cells) {
  std::vector<std::string> row;
  for (const std::string& cell : cells) {
    const int64_t limit = options_.max_width > 0 ? options_.max_width : std::numeric_limits<int64_t>::max();
    row.push_back(fit_width(one_line(cell), limit));
  }
  rows_.push_back(std::move(row));
}

std::string Table::str() const {
  std::vector<std::vector<std::string>> lines;
  if (!options_.header.empty()) lines.push_back(options_.header);
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<int64_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  if (!options_.header.empty()) {
    std::vector<std::string> rule;
    for (const int64_t width : widths) rule.emplace_back(static_cast<size_t>(width), '-');
    lines.insert(lines.begin() + 1, std::move(rule));
  }

  std::string text;
  for (const auto& cells : lines) {
    std::string line = spaces(options_.indent);
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding = spaces(widths[i] - display_width(cells[i]));
      const bool right = i < options_.align.size() && options_.align[i] == Align::kRight;
      if (i > 0) line.append(kGap, ' ');
      line += right ? padding + cells[i] : cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace fovea
