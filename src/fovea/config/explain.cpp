#include "fovea/config/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/config/value.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"

namespace fovea::config {
namespace {

using What = Explained::What;

class Explainer : public Fields {
 public:
  Explainer(std::vector<Explained>& lines, std::string path, std::string entry, std::vector<std::string> outer = {})
      : lines_(lines), path_(std::move(path)), entry_(std::move(entry)), outer_(std::move(outer)) {}

 protected:
  void on_setting(const Setting& setting) override {
    const std::string value = setting.rule.required ? "required" : value_text(setting.value);
    lines_.push_back({What::kSetting, full(setting.key), entry_, setting.help, expected_text(setting), value, outer_});
  }

  void on_section(const std::string& key, Section& section, const std::string& help) override {
    heading(key, help);
    Explainer inner(lines_, full(key), entry_, outer_);
    section.fields(inner);
  }

  void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>& entries,
                const std::string& help) override {
    heading(key, help);
    std::vector<std::string> names;
    names.reserve(entries.size());
    for (const NamedEntry& entry : entries) names.push_back(entry.name);
    lines_.push_back({What::kSetting, full(key) + ".name", entry_, "which one; the other keys depend on it",
                      fmt::format("one of {}", fmt::join(names, ", ")), named.name.empty() ? "required" : named.name,
                      outer_});
    std::vector<std::string> outer = outer_;
    if (!entry_.empty()) outer.push_back(entry_);
    for (const NamedEntry& entry : entries) {
      lines_.push_back({What::kName, full(key), entry.name, entry.summary, "", "", outer});
      const bool is_current = named.section && named.name == entry.name;
      const std::shared_ptr<Section> section = is_current ? named.section : entry.make();
      Explainer inner(lines_, full(key), entry.name, outer);
      section->fields(inner);
    }
  }

 private:
  std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  void heading(const std::string& key, const std::string& help) {
    lines_.push_back({What::kSection, full(key), entry_, help, "", "", outer_});
  }

  std::vector<Explained>& lines_;
  std::string path_;
  std::string entry_;
  std::vector<std::string> outer_;
};

// Breaks text at spaces into lines of at most `width` bytes; longer words are cut.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > width) {
    size_t end = rest.rfind(' ', width);
    if (end == std::string::npos || end == 0) {
      end = width;
      while (end > 1 && (static_cast<unsigned char>(rest[end]) & 0xC0) == 0x80) --end;  // not inside a character
    }
    lines.push_back(rest.substr(0, end));
    const size_t next = rest.find_first_not_of(' ', end);
    rest = next == std::string::npos ? "" : rest.substr(next);
  }
  if (!rest.empty() || lines.empty()) lines.push_back(rest);
  return lines;
}

constexpr size_t kColumns = 4;
using Row = std::array<std::string, kColumns>;

const Row kHead = {"key", "type and limits", "default", "meaning"};

Row row_of(const Explained& line) {
  const bool article = line.expected.starts_with("a ");
  const std::string type = article ? line.expected.substr(2) : line.expected;
  return {line.key, type, line.default_text, line.help};
}

std::array<size_t, kColumns> column_widths(const std::vector<Explained>& lines, size_t width) {
  constexpr std::array<size_t, kColumns> kWidest = {36, 28, 16, 1000};
  constexpr size_t kNarrowestHelp = 20;
  std::array<size_t, kColumns> widths{};
  for (size_t i = 0; i < kColumns; ++i) widths[i] = kHead[i].size();
  for (const Explained& line : lines) {
    if (line.what != What::kSetting) continue;
    const Row row = row_of(line);
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::min(kWidest[i], std::max(widths[i], row[i].size()));
  }
  const size_t before_help = widths[0] + widths[1] + widths[2] + 2 * (kColumns - 1);
  widths[3] = width > before_help + kNarrowestHelp ? width - before_help : kNarrowestHelp;
  return widths;
}

std::string table_row(const Row& row, const std::array<size_t, kColumns>& widths) {
  std::array<std::vector<std::string>, kColumns> cells;
  size_t height = 0;
  for (size_t i = 0; i < kColumns; ++i) {
    cells[i] = wrapped(row[i], widths[i]);
    height = std::max(height, cells[i].size());
  }
  std::string text;
  for (size_t line = 0; line < height; ++line) {
    std::string printed;
    for (size_t i = 0; i < kColumns; ++i) {
      printed += fmt::format("{:<{}}  ", line < cells[i].size() ? cells[i][line] : "", widths[i]);
    }
    text += printed.substr(0, printed.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

bool is_about(const Explained& line, const std::string& about) {
  const bool is_inside = std::find(line.outer.begin(), line.outer.end(), about) != line.outer.end();
  return about.empty() || line.key == about || line.entry == about || line.key.starts_with(about + ".") || is_inside;
}

}  // namespace

std::vector<Explained> explain(const Section& root) {
  std::vector<Explained> lines;
  Explainer explainer(lines, "", "");
  const_cast<Section&>(root).fields(explainer);  // the explainer only looks
  return lines;
}

std::string explain_table(const Section& root, const std::string& about, size_t width) {
  std::vector<Explained> lines;
  std::vector<std::string> known;
  for (const Explained& line : explain(root)) {
    known.push_back(line.key);
    if (!line.entry.empty()) known.push_back(line.entry);
    if (is_about(line, about)) lines.push_back(line);
  }
  if (lines.empty() && !about.empty()) {
    for (const Explained& line : explain(root)) {  // "num_heads" is enough for "model.num_heads"
      if (line.key.ends_with("." + about)) lines.push_back(line);
    }
  }
  if (lines.empty() && !about.empty()) {
    fail_usage("nothing to explain is called {}{}", quote(about), did_you_mean(about, known));
  }
  const std::array<size_t, kColumns> widths = column_widths(lines, width);
  std::string text = table_row(kHead, widths);
  for (const Explained& line : lines) {
    if (line.what == What::kSetting) {
      text += table_row(row_of(line), widths);
    } else {
      const std::string name = line.what == What::kName ? fmt::format(".name = {}", line.entry) : "";
      text += fmt::format("\n{}{}: {}\n", line.key, name, line.help);
    }
  }
  return text;
}

}  // namespace fovea::config
