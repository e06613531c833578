#include "fovea/sweep/sweep_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "fovea/config/checker.h"
#include "fovea/config/dump.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"

namespace fovea::sweep {
namespace {

using config::fail_at;
using config::Node;

constexpr std::string_view kBase = "base", kSettings = "settings", kGrid = "grid", kVariants = "variants",
                           kEvaluate = "evaluate", kName = "name", kSplit = "split";
constexpr size_t kMostMembers = 10000;

// The keys whose values are declared; the others hold keys of experiments and of the evaluation.
struct PlainKeys : config::Section {
  std::optional<std::filesystem::path> base;
  std::vector<int64_t> seeds;
  std::vector<std::string> measures;
  std::optional<double> budget;
  PlotConfig plot;
  void fields(config::Fields& f) override {
    f("base", base, "the experiment that members begin with");
    f("seeds", seeds, "train each member once with each of these", config::at_least(0));
    f("measures", measures, "columns of the table");
    f("budget", budget, "minutes of training after which no member begins", config::above(0));
    f.section("plot", plot, "the picture");
  }
};

// A key of a member's configuration that the sweep sets.
struct Setting {
  std::string key;
  config::Origin origin;
  Node value;
};

struct Variant {
  std::string name;
  config::Origin origin;
  Node base;  // null: that of the sweep
  std::vector<Setting> settings;
};

std::string value_text(const Node& value) {
  if (value.is_null()) return "null";
  if (value.is_scalar()) return value.text;
  std::vector<std::string> items;
  for (const auto& item : value.items) items.push_back(value_text(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

Node make_node(Node::Kind kind, const config::Origin& origin) {
  Node node;
  node.kind = kind;
  node.origin = origin;
  return node;
}

const Node* find_value(const Node& map, std::string_view key) {
  const auto* entry = map.find(key);
  return entry == nullptr || entry->value.is_null() ? nullptr : &entry->value;
}

void check_keys(const Node& map, const std::vector<std::string>& known, const std::string& what) {
  for (const auto& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    fail_at(entry.key_origin, fmt::format("{} has no key {}{}; expected {}", what, config::quote(entry.key),
                                          did_you_mean(entry.key, known), fmt::join(known, ", ")));
  }
}

// {train.max_epochs: 3} and {train: {max_epochs: 3}} are the same.
void add_settings(const Node& map, const std::string& prefix, std::vector<Setting>& settings) {
  for (const auto& entry : map.entries) {
    const std::string key = prefix.empty() ? entry.key : prefix + "." + entry.key;
    if (entry.value.is_map()) {
      add_settings(entry.value, key, settings);
    } else {
      settings.push_back({key, entry.key_origin, entry.value});
    }
  }
}

std::vector<Setting> settings_of(const Node& owner) {
  std::vector<Setting> settings;
  const Node* map = find_value(owner, kSettings);
  if (map == nullptr) return settings;
  if (!map->is_map()) fail_at(map->origin, "settings: expected keys of an experiment, as in {train.max_epochs: 3}");
  add_settings(*map, {}, settings);
  return settings;
}

// For each key of the grid its values.
std::vector<std::vector<Setting>> grid_of(const Node& root) {
  std::vector<std::vector<Setting>> grid;
  const Node* map = find_value(root, kGrid);
  if (map == nullptr) return grid;
  if (!map->is_map()) fail_at(map->origin, "grid: expected keys with lists of values, as in {model.num_heads: [1, 2]}");
  std::vector<Setting> axes;
  add_settings(*map, {}, axes);
  for (const auto& axis : axes) {
    if (!axis.value.is_list() || axis.value.items.empty()) {
      fail_at(axis.origin, fmt::format("grid.{}: expected a list of values, as in [1, 2, 4]", axis.key));
    }
    std::set<std::string> seen;
    auto& values = grid.emplace_back();
    for (const auto& item : axis.value.items) {
      if (!seen.insert(value_text(item)).second) {
        fail_at(item.origin, fmt::format("grid.{}: {} stands there twice", axis.key, value_text(item)));
      }
      values.push_back({axis.key, axis.origin, item});
    }
  }
  return grid;
}

std::vector<Variant> variants_of(const Node& root) {
  std::vector<Variant> variants;
  const Node* list = find_value(root, kVariants);
  if (list == nullptr) return variants;
  if (!list->is_list() || list->items.empty()) fail_at(list->origin, "variants: expected a list of {name, settings}");
  for (const auto& item : list->items) {
    if (!item.is_map()) fail_at(item.origin, "variants: expected {name, base, settings}");
    check_keys(item, {std::string(kName), std::string(kBase), std::string(kSettings)}, "a variant");
    const Node* name = find_value(item, kName);
    if (name == nullptr || !name->is_scalar()) fail_at(item.origin, "variants: expected a name");
    for (const auto& other : variants) {
      if (other.name == name->text) fail_at(name->origin, fmt::format("variants: two are named '{}'", name->text));
    }
    const Node* base = find_value(item, kBase);
    variants.push_back({name->text, item.origin, base == nullptr ? Node() : *base, settings_of(item)});
  }
  return variants;
}

// Where only the last parts of the keys differ these are enough.
std::vector<std::string> short_keys(const std::vector<std::string>& keys) {
  std::map<std::string, int> times;
  const auto last_part = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  for (const auto& key : keys) ++times[last_part(key)];
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(times[last_part(key)] > 1 ? key : last_part(key));
  return names;
}

// Text that can be part of a file's name.
std::string file_part(const std::string& text) {
  std::string part;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    if (is_plain) {
      part += c;
    } else if (!part.empty() && part.back() != '_') {
      part += '_';
    }
  }
  while (!part.empty() && part.back() == '_') part.pop_back();
  while (!part.empty() && part.front() == '.') part.erase(0, 1);
  return part;
}

// Reads what is declared in a file's own words, and what is not by hand.
class Reader {
 public:
  Reader(const tasks::Registry& registry, const std::filesystem::path& file, const std::vector<std::string>& overrides)
      : registry_(registry), overrides_(overrides), root_(config::load_yaml(file)) {
    sweep_.file = file;
  }

  Sweep read() {
    read_plain();
    settings_ = settings_of(root_);
    grid_ = grid_of(root_);
    variants_ = variants_of(root_);
    if (variants_.empty()) variants_.push_back({{}, root_.origin, {}, {}});
    for (const auto& axis : grid_) sweep_.grid.push_back(axis.front().key);
    sweep_.grid_names = short_keys(sweep_.grid);
    make_members();
    check_members();
    read_evaluate();
    check_plot();
    return std::move(sweep_);
  }

 private:
  void read_plain() {
    const std::vector<std::string> all = {"base",     "settings", "grid",   "variants", "seeds",
                                          "evaluate", "measures", "budget", "plot"};
    if (!root_.is_map()) fail_at(root_.origin, fmt::format("a sweep has the keys {}", fmt::join(all, ", ")));
    if (root_.find("model") != nullptr && root_.find("data") != nullptr) {
      fail_usage("{}: is an experiment, not a sweep; train it: fovea train {}", sweep_.file.string(),
                 sweep_.file.string());
    }
    check_keys(root_, all, "a sweep");
    Node plain = root_;
    std::erase_if(plain.entries, [](const Node::Entry& entry) {
      return entry.key == kSettings || entry.key == kGrid || entry.key == kVariants || entry.key == kEvaluate;
    });
    config::read(plain_, plain);
    sweep_.measures = plain_.measures;
    sweep_.budget = plain_.budget;
    sweep_.plot = plain_.plot;
    sweep_.seeds = plain_.seeds;
    if (std::set(sweep_.seeds.begin(), sweep_.seeds.end()).size() < sweep_.seeds.size()) {
      fail_at(root_.find("seeds")->value.origin, "seeds: one stands there twice");
    }
  }

  std::filesystem::path base_of(const Variant& variant) const {
    if (!variant.base.is_null()) {
      PlainKeys own;
      Node map = make_node(Node::Kind::kMap, variant.base.origin);
      map.entries.push_back({std::string(kBase), variant.base.origin, variant.base});
      config::read(own, map);
      return *own.base;
    }
    if (plain_.base) return *plain_.base;
    if (variant.name.empty()) fail_usage("{}: base: expected the YAML file of an experiment", sweep_.file.string());
    fail_at(variant.origin, fmt::format("variants: '{}' has no base, and the sweep has none", variant.name));
  }

  void make_members() {
    std::vector<const int64_t*> seeds;  // null: that of the base
    for (const int64_t& seed : sweep_.seeds) seeds.push_back(&seed);
    if (seeds.empty()) seeds.push_back(nullptr);
    size_t points = 1;
    for (const auto& axis : grid_) {
      points *= axis.size();
      if (points * seeds.size() * variants_.size() > kMostMembers) {
        fail_usage("{}: more than {} members", sweep_.file.string(), kMostMembers);
      }
    }
    for (const int64_t* seed : seeds) {
      for (const auto& variant : variants_) {
        for (size_t point = 0; point < points; ++point) add_member(variant, point, seed);
      }
    }
  }

  // The first key of the grid changes slowest.
  std::vector<Setting> grid_point(size_t point) const {
    std::vector<Setting> values;
    for (auto axis = grid_.rbegin(); axis != grid_.rend(); ++axis) {
      values.push_back((*axis)[point % axis->size()]);
      point /= axis->size();
    }
    std::reverse(values.begin(), values.end());
    return values;
  }

  void add_member(const Variant& variant, size_t point, const int64_t* seed) {
    Node document = config::load_yaml(base_of(variant));
    const auto values = grid_point(point);
    for (const auto& setting : settings_) set(document, setting);
    for (const auto& setting : values) set(document, setting);
    for (const auto& setting : variant.settings) set(document, setting);
    if (seed != nullptr) {
      Node value = make_node(Node::Kind::kScalar, root_.find("seeds")->value.origin);
      value.text = std::to_string(*seed);
      config::set_value(document, "seed", value.origin, value);
    }
    for (const auto& argument : overrides_) config::apply_override(document, argument);
    std::string name = file_part(variant.name);
    std::vector<config::KeyValue> texts;
    for (size_t i = 0; i < values.size(); ++i) {
      texts.push_back({values[i].key, value_text(values[i].value)});
      name += (name.empty() ? "" : "-") + sweep_.grid_names[i] + "-" + file_part(texts.back().value);
    }
    try {
      train::ExperimentConfig config = train::read_experiment(registry_, document);
      registry_.check(config);
      if (seed != nullptr) name += (name.empty() ? "seed" : "-seed") + std::to_string(*seed);
      if (name.empty()) name = "run";
      const int64_t its_seed = config.seed;
      sweep_.members.push_back({.name = unique(name),
                                .variant = variant.name,
                                .values = std::move(texts),
                                .seed = its_seed,
                                .config = std::move(config)});
    } catch (const Error& error) {
      throw Error(fmt::format("{} (member {})", error.what(), name.empty() ? "of the sweep" : name), error.kind());
    }
  }

  void set(Node& document, const Setting& setting) const {
    if (setting.key == "seed" && !sweep_.seeds.empty()) {
      fail_at(setting.origin, "seed: the sweep has seeds, which decide it");
    }
    config::set_value(document, setting.key, setting.origin, setting.value);
  }

  std::string unique(const std::string& name) const {
    const auto is_taken = [&](const std::string& candidate) {
      return std::any_of(sweep_.members.begin(), sweep_.members.end(),
                         [&](const Member& member) { return member.name == candidate; });
    };
    std::string candidate = name;
    for (int i = 2; is_taken(candidate); ++i) candidate = fmt::format("{}-{}", name, i);
    return candidate;
  }

  void check_members() const {
    std::map<std::string, std::string> names;  // by everything that decides a training
    const Member& first = sweep_.members.front();
    for (const auto& member : sweep_.members) {
      const auto [same, is_new] = names.emplace(config::dump(member.config), member.name);
      if (!is_new) {
        fail_usage("{}: {} and {} have the same settings", sweep_.file.string(), same->second, member.name);
      }
      if (task_of(member).name == task_of(first).name) continue;
      fail_usage("{}: expected members of one task; {} is {}, {} is {}", sweep_.file.string(), first.name,
                 task_of(first).name, member.name, task_of(member).name);
    }
  }

  const tasks::Task& task_of(const Member& member) const { return registry_.task_with_data(member.config.data.name); }

  void read_evaluate() {
    Node options = make_node(Node::Kind::kMap, root_.origin);
    if (const Node* map = find_value(root_, kEvaluate)) {
      if (!map->is_map()) fail_at(map->origin, "evaluate: expected options of fovea evaluate, as in {beam: 4}");
      options = *map;
    }
    if (const Node* split = find_value(options, kSplit)) read_split(*split);
    std::erase_if(options.entries, [](const Node::Entry& entry) { return entry.key == kSplit; });
    const auto section = task_of(sweep_.members.front()).evaluate_options();
    config::read(*section, options);
    for (const auto& setting : config::path_settings(*section)) {
      if (const auto* entry = options.find(setting.key)) {
        fail_at(entry->key_origin, fmt::format("evaluate: all members would write {}", setting.key));
      }
    }
    sweep_.evaluate = {"--split", std::string(data::part_name(sweep_.part))};
    for (const auto& entry : options.entries) {
      std::string flag = "--" + entry.key;
      std::replace(flag.begin(), flag.end(), '_', '-');
      const bool is_switch = entry.value.text == "true";
      if (entry.value.is_null() || entry.value.text == "false") continue;
      sweep_.evaluate.push_back(is_switch ? flag : flag + "=" + entry.value.text);
    }
  }

  void read_split(const Node& split) {
    for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
      if (split.text != data::part_name(part)) continue;
      sweep_.part = part;
      return;
    }
    fail_at(split.origin, fmt::format("evaluate.split: expected train, validation or test, found {}",
                                      config::quote(value_text(split))));
  }

  void check_plot() const {
    if (!sweep_.plot.x) return;
    const auto& keys = sweep_.grid;
    if (std::find(keys.begin(), keys.end(), *sweep_.plot.x) != keys.end()) return;
    config::Checker(root_, "plot")
        .fail("x", "expected a key of the grid{}, found {}",
              keys.empty() ? " (there is none)" : fmt::format(" ({})", fmt::join(keys, ", ")),
              config::quote(*sweep_.plot.x));
  }

  const tasks::Registry& registry_;
  const std::vector<std::string>& overrides_;
  Node root_;
  PlainKeys plain_;
  std::vector<Setting> settings_;
  std::vector<std::vector<Setting>> grid_;
  std::vector<Variant> variants_;
  Sweep sweep_;
};

}  // namespace

std::string Member::setup(const std::vector<std::string>& keys) const {
  std::string text = variant;
  for (size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", keys[i], values[i].value);
  }
  return text;
}

void PlotConfig::fields(config::Fields& f) {
  f("x", x, "the key of the grid along which measures are drawn");
  f("log", log, "draw it on a logarithmic scale");
}

Sweep load_sweep(const tasks::Registry& registry, const std::filesystem::path& file,
                 const std::vector<std::string>& overrides) {
  return Reader(registry, file, overrides).read();
}

}  // namespace fovea::sweep
