#include "fovea/config/dump.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/value.h"

namespace fovea::config {
namespace {

constexpr const char* kAbsent = "absent";

class Dumper : public Fields {
 public:
  static std::string dump(Section& section) {
    Dumper dumper("");
    section.fields(dumper);
    return dumper.text_.empty() ? "{}\n" : dumper.text_;
  }

 protected:
  void on_setting(const Setting& setting) override { line(setting.key, value_text(setting.value)); }

  void on_section(const std::string& key, Section& section, const std::string&) override {
    Dumper inner(indent_ + "  ");
    section.fields(inner);
    add(key, inner);
  }

  void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>&, const std::string&) override {
    Dumper inner(indent_ + "  ");
    if (!named.name.empty()) inner.line("name", yaml_text(named.name));
    if (named.section) named.section->fields(inner);
    add(key, inner);
  }

 private:
  explicit Dumper(std::string indent) : indent_(std::move(indent)) {}

  void line(const std::string& key, const std::string& value) {
    text_ += fmt::format("{}{}: {}\n", indent_, yaml_text(key), value);
  }

  void add(const std::string& key, const Dumper& inner) {
    if (inner.text_.empty()) {
      line(key, "{}");
    } else {
      text_ += fmt::format("{}{}:\n{}", indent_, yaml_text(key), inner.text_);
    }
  }

  std::string indent_;
  std::string text_;
};

class Lister : public Fields {
 public:
  Lister(std::vector<KeyValue>& list, std::string prefix) : list_(list), prefix_(std::move(prefix)) {}

 protected:
  void on_setting(const Setting& setting) override {
    list_.push_back({prefix_ + setting.key, value_text(setting.value)});
  }

  void on_section(const std::string& key, Section& section, const std::string&) override {
    Lister inner(list_, prefix_ + key + ".");
    section.fields(inner);
  }

  void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>&, const std::string&) override {
    list_.push_back({prefix_ + key + ".name", yaml_text(named.name)});
    Lister inner(list_, prefix_ + key + ".");
    if (named.section) named.section->fields(inner);
  }

 private:
  std::vector<KeyValue>& list_;
  std::string prefix_;
};

class PathLister : public Fields {
 public:
  PathLister(std::vector<PathSetting>& list, std::string prefix) : list_(list), prefix_(std::move(prefix)) {}

 protected:
  void on_setting(const Setting& setting) override {
    using Path = std::filesystem::path;
    PathSetting found{prefix_ + setting.key, {}};
    if (const auto* path = std::get_if<Path*>(&setting.value)) {
      if (!(*path)->empty()) found.paths = {**path};
    } else if (const auto* optional = std::get_if<std::optional<Path>*>(&setting.value)) {
      if (**optional) found.paths = {***optional};
    } else if (const auto* list = std::get_if<std::vector<Path>*>(&setting.value)) {
      found.paths = **list;
    } else {
      return;
    }
    list_.push_back(std::move(found));
  }

  void on_section(const std::string& key, Section& section, const std::string&) override {
    PathLister inner(list_, prefix_ + key + ".");
    section.fields(inner);
  }

  void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>&, const std::string&) override {
    PathLister inner(list_, prefix_ + key + ".");
    if (named.section) named.section->fields(inner);
  }

 private:
  std::vector<PathSetting>& list_;
  std::string prefix_;
};

const KeyValue* find(const std::vector<KeyValue>& list, const std::string& key) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const KeyValue& item) { return item.key == key; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

std::string dump(const Section& root) {
  return Dumper::dump(const_cast<Section&>(root));  // the dumper only looks
}

std::vector<KeyValue> settings(const Section& root) {
  std::vector<KeyValue> list;
  Lister lister(list, "");
  const_cast<Section&>(root).fields(lister);  // the lister only looks
  return list;
}

std::vector<PathSetting> path_settings(const Section& root) {
  std::vector<PathSetting> list;
  PathLister lister(list, "");
  const_cast<Section&>(root).fields(lister);  // the lister only looks
  return list;
}

std::vector<Difference> differences(const Section& before, const Section& after,
                                    const std::vector<std::string>& ignored) {
  const std::vector<KeyValue> old_values = settings(before);
  const std::vector<KeyValue> new_values = settings(after);
  const auto is_ignored = [&](const std::string& key) {
    return std::any_of(ignored.begin(), ignored.end(),
                       [&](const std::string& name) { return key == name || key.starts_with(name + "."); });
  };
  std::vector<Difference> result;
  for (const KeyValue& item : old_values) {
    const KeyValue* other = find(new_values, item.key);
    const std::string value = other == nullptr ? kAbsent : other->value;
    if (value != item.value && !is_ignored(item.key)) result.push_back({item.key, item.value, value});
  }
  for (const KeyValue& item : new_values) {
    if (find(old_values, item.key) == nullptr && !is_ignored(item.key))
      result.push_back({item.key, kAbsent, item.value});
  }
  return result;
}

}  // namespace fovea::config
