#include "fovea/config/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/value.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/core/table.h"

namespace fovea::config {
namespace {

using What = Explained::What;

class Explainer : public Fields {
 public:
  explicit Explainer(std::vector<Explained>& lines) : lines_(lines) {}

 protected:
  void on_setting(const Setting& setting) override {
    const std::string value = setting.rule.required ? "required" : value_text(setting.value);
    lines_.push_back(
        {What::kSetting, full(setting.key), entry_, setting.help, expected_text(setting), value, outer_, named_});
  }

  void on_section(const std::string& key, Section& section, const std::string& help) override {
    heading(key, help);
    Explainer inner = *this;
    inner.path_ = full(key);
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
                      outer_, named_});
    std::vector<std::string> outer = outer_;
    if (!entry_.empty()) outer.push_back(entry_);
    for (const NamedEntry& entry : entries) {
      lines_.push_back({What::kName, full(key), entry.name, entry.summary, "", "", outer, full(key)});
      const bool is_current = named.section && named.name == entry.name;
      const std::shared_ptr<Section> section = is_current ? named.section : entry.make();
      Explainer inner = *this;
      inner.path_ = inner.named_ = full(key);
      inner.entry_ = entry.name;
      inner.outer_ = outer;
      section->fields(inner);
    }
  }

 private:
  std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  void heading(const std::string& key, const std::string& help) {
    lines_.push_back({What::kSection, full(key), entry_, help, "", "", outer_, named_});
  }

  std::vector<Explained>& lines_;
  std::string path_;
  std::string entry_;
  std::string named_;
  std::vector<std::string> outer_;
};

// Of a table with a column for each of type, default and meaning.
constexpr int64_t kWide = 120;

std::string type_of(const Explained& line) {
  return line.expected.starts_with("a ") ? line.expected.substr(2) : line.expected;
}

std::vector<std::string> wide_row(const Explained& line) {
  return {line.key, type_of(line), line.default_text, line.help};
}

std::vector<std::string> narrow_row(const Explained& line) {
  const bool is_required = line.default_text == "required";
  return {line.key,
          fmt::format("{} ({}; {}{})", line.help, type_of(line), is_required ? "" : "default ", line.default_text)};
}

// "data.validation of data.name = translation: what it is"
std::string title_of(const Explained& line) {
  if (line.what == What::kName) return fmt::format("{}.name = {}: {}", line.key, line.entry, line.help);
  if (line.entry.empty()) return fmt::format("{}: {}", line.key, line.help);
  return fmt::format("{} where {}.name = {}: {}", line.key, line.named, line.entry, line.help);
}

bool is_about(const Explained& line, const std::string& about) {
  const bool is_inside = std::find(line.outer.begin(), line.outer.end(), about) != line.outer.end();
  return about.empty() || line.key == about || line.entry == about || line.key.starts_with(about + ".") || is_inside;
}

}  // namespace

std::vector<Explained> explain(const Section& root) {
  std::vector<Explained> lines;
  Explainer explainer(lines);
  const_cast<Section&>(root).fields(explainer);  // the explainer only looks
  return lines;
}

std::string explain_table(const Section& root, const std::string& about, int64_t width) {
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
    fail_usage("no setting, model or data is called {}{}", quote(about), did_you_mean(about, known));
  }
  const bool is_wide = width == 0 || width >= kWide;
  Table table({.header = is_wide ? std::vector<std::string>{"key", "type and limits", "default", "meaning"}
                                 : std::vector<std::string>{"key", "meaning (type and limits; default)"},
               .width = width,
               .rule = false});
  for (const Explained& line : lines) {
    if (line.what == What::kSetting) {
      table.add_row(is_wide ? wide_row(line) : narrow_row(line));
    } else {
      table.add_title(title_of(line));
    }
  }
  return table.str();
}

}  // namespace fovea::config
