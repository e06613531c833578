#include "fovea/config/read.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/explain.h"
#include "fovea/config/nearest_setting.h"
#include "fovea/config/value.h"
#include "fovea/core/suggest.h"

namespace fovea::config {
namespace {

constexpr const char* kName = "name";

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

// The keys directly in a section.
class KnownKeys : public Fields {
 public:
  static std::vector<std::string> of(Section& section) {
    KnownKeys known;
    section.fields(known);
    return std::move(known.keys_);
  }

 protected:
  void on_setting(const Setting& setting) override { add(setting.key); }
  void on_section(const std::string& key, Section&, const std::string&) override { add(key); }
  void on_named(const std::string& key, Named&, const std::vector<NamedEntry>&, const std::string&) override {
    add(key);
  }

 private:
  void add(const std::string& key) {
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) fail("the setting '{}' is declared twice", key);
    keys_.push_back(key);
  }

  std::vector<std::string> keys_;
};

// Reads the settings of one section.
class Reader : public Fields {
 public:
  // `map` is the section's map, or null if it is not given; `place` is where a key is missing that
  // should be there.
  Reader(Section& root, const Node* map, Origin place, std::string path, Document whose)
      : root_(root), map_(map), place_(std::move(place)), path_(std::move(path)), whose_(whose) {}

  void read(Section& section) {
    check_keys(KnownKeys::of(section), [](const std::string&) { return std::string(); });
    section.fields(*this);
  }

 protected:
  void on_setting(const Setting& setting) override {
    const std::string path = joined(path_, setting.key);
    if (const Node::Entry* entry = find(setting.key)) {
      assign(setting, *entry, path);
    } else if (setting.rule.formerly && whose_ == Document::kRuns) {
      Node former;
      former.kind = Node::Kind::kScalar;
      former.text = *setting.rule.formerly;
      assign(setting, {setting.key, place_, former}, path);
    } else if (setting.rule.required) {
      fail_at(place_, fmt::format("{}: is required, but not given; expected {}", path, expected_text(setting)));
    }
  }

  void on_section(const std::string& key, Section& section, const std::string&) override {
    const Node::Entry* entry = find(key);
    inner(key, entry, "").read(section);
  }

  void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>& entries,
                const std::string&) override {
    const Node::Entry* given = find(key);
    Reader reader = inner(key, given, " with a name");
    const NamedEntry& chosen = reader.choose(named.name, entries, given == nullptr ? place_ : given->key_origin);
    if (!named.section || named.name != chosen.name) named.section = chosen.make();
    named.name = chosen.name;
    std::vector<std::string> known = KnownKeys::of(*named.section);
    if (std::find(known.begin(), known.end(), kName) != known.end()) {
      fail("the section '{}' declares the key 'name', which says what it is", chosen.name);
    }
    known.insert(known.begin(), kName);
    reader.check_keys(known, [&](const std::string& unknown) { return owners(unknown, chosen, entries); });
    named.section->fields(reader);
  }

 private:
  const Node::Entry* find(const std::string& key) const { return map_ == nullptr ? nullptr : map_->find(key); }

  Reader inner(const std::string& key, const Node::Entry* entry, const char* what) const {
    const std::string path = joined(path_, key);
    if (entry == nullptr) return Reader(root_, nullptr, place_, path, whose_);
    const Node& node = entry->value;
    if (node.is_null()) {
      fail_at(entry->key_origin, fmt::format("{}: has no keys; expected a map{}, or no such line", path, what));
    }
    if (!node.is_map()) {
      const std::string found = node.is_list() ? "a list" : quote(node.text);
      const std::string hint = *what != '\0' && node.is_scalar()
                                   ? fmt::format("; write {}: {{name: {}}}", key, printable(node.text))
                                   : std::string();
      fail_at(node.origin, fmt::format("{}: expected a map{} (key: value), found {}{}", path, what, found, hint));
    }
    return Reader(root_, &node, entry->key_origin.is_argument() ? place_ : entry->key_origin, path, whose_);
  }

  // The entry that the name asks for.
  const NamedEntry& choose(std::string name, const std::vector<NamedEntry>& entries, const Origin& section) const {
    std::vector<std::string> names;
    names.reserve(entries.size());
    for (const NamedEntry& entry : entries) names.push_back(entry.name);
    Setting setting{kName, "", Value(&name), {}};
    setting.rule.choices = names;
    const std::string path = joined(path_, kName);
    if (const Node::Entry* entry = find(kName)) {
      assign(setting, *entry, path);
    } else if (name.empty()) {
      fail_at(section.is_argument() ? place_ : section,
              fmt::format("{}: is required, but not given; expected {}", path, expected_text(setting)));
    }
    for (const NamedEntry& entry : entries) {
      if (entry.name == name) return entry;
    }
    fail("{}: the default '{}' is not {}", path, name, expected_text(setting));
  }

  // What an unknown key belongs to, when it is another name's.
  static std::string owners(const std::string& key, const NamedEntry& chosen, const std::vector<NamedEntry>& entries) {
    std::vector<std::string> names;
    for (const NamedEntry& entry : entries) {
      const std::vector<std::string> keys = KnownKeys::of(*entry.make());
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) names.push_back("'" + entry.name + "'");
    }
    if (names.empty()) return {};
    return fmt::format(" for the name '{}'; it belongs to {}", chosen.name, fmt::join(names, ", "));
  }

  template <typename Owners>
  void check_keys(const std::vector<std::string>& known, const Owners& owners_of) const {
    if (map_ == nullptr) return;
    for (const Node::Entry& entry : map_->entries) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
      std::string hint = owners_of(entry.key);
      if (hint.empty()) hint = suggestion(entry, known);
      fail_at(entry.key_origin, fmt::format("{}: unknown key{}", printable(joined(path_, entry.key)), hint));
    }
  }

  std::string suggestion(const Node::Entry& entry, const std::vector<std::string>& known) const {
    const std::vector<Explained> lines = explain(root_);
    for (const Explained& line : lines) {
      if (line.key != entry.key || entry.key.find('.') == std::string::npos) continue;
      const size_t dot = entry.key.rfind('.');
      return fmt::format("; in a file, write {} below {}", entry.key.substr(dot + 1), entry.key.substr(0, dot));
    }
    const auto elsewhere = settings_called(entry.key, lines);
    if (!elsewhere.empty()) return fmt::format("; did you mean '{}'?", fmt::join(elsewhere, "' or '"));
    std::string near = did_you_mean(entry.key, known);
    if (!near.empty()) return near;
    const std::string far = nearest_setting(entry.key, lines);
    if (!far.empty()) return fmt::format("; did you mean '{}'?", far);
    return known.empty() ? "; no keys are known here" : fmt::format("; known keys: {}", fmt::join(known, ", "));
  }

  Section& root_;
  const Node* map_;
  Origin place_;
  std::string path_;
  Document whose_;
};

// Runs every section's check, inner sections first.
class Checking : public Fields {
 public:
  static void run(Section& section, const Checker& checker) {
    Checking checking(checker);
    section.fields(checking);
    section.check(checker);
  }

 protected:
  void on_setting(const Setting&) override {}
  void on_section(const std::string& key, Section& section, const std::string&) override {
    run(section, checker_.within(key));
  }
  void on_named(const std::string& key, Named& named, const std::vector<NamedEntry>&, const std::string&) override {
    run(*named.section, checker_.within(key));
  }

 private:
  explicit Checking(const Checker& checker) : checker_(checker) {}

  const Checker& checker_;
};

}  // namespace

void read(Section& root, const Node& document, Document whose) {
  if (document.is_null()) fail_at(document.origin, "the file is empty; expected 'key: value' lines");
  if (!document.is_map()) {
    const std::string found = document.is_list() ? "a list" : quote(document.text);
    fail_at(document.origin, fmt::format("expected a map ('key: value' lines), found {}", found));
  }
  Reader(root, &document, {document.origin.file, 0, {}}, "", whose).read(root);
  Checking::run(root, Checker(document));
}

}  // namespace fovea::config
