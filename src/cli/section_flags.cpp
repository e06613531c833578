#include "section_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "fovea/config/document.h"
#include "fovea/config/explain.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"

namespace fovea::cli {
namespace {

// Calls a function for each setting of a section without inner sections.
class EachSetting : public config::Fields {
 public:
  explicit EachSetting(std::function<void(const config::Setting&)> visit) : visit_(std::move(visit)) {}

 protected:
  void on_setting(const config::Setting& setting) override { visit_(setting); }
  void on_section(const std::string& key, config::Section&, const std::string&) override { refuse(key); }
  void on_named(const std::string& key, config::Named&, const std::vector<config::NamedEntry>&,
                const std::string&) override {
    refuse(key);
  }

 private:
  [[noreturn]] static void refuse(const std::string& key) { fail("options: '{}' is a section, not a setting", key); }
  std::function<void(const config::Setting&)> visit_;
};

const char* type_name(const config::Value& value) {
  const bool is_whole =
      std::holds_alternative<int64_t*>(value) || std::holds_alternative<std::optional<int64_t>*>(value);
  const bool is_number =
      std::holds_alternative<double*>(value) || std::holds_alternative<std::optional<double>*>(value);
  return is_whole ? "INT" : is_number ? "NUMBER" : "TEXT";
}

std::string default_of(const config::Section& section, const std::string& key) {
  for (const auto& explained : config::explain(section)) {
    if (explained.key == key) return explained.default_text;
  }
  return {};
}

}  // namespace

std::string flag_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

bool SectionFlags::is_given(const std::string& key) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [&](const Flag& flag) { return flag.key == key && flag.option->count() > 0; });
}

void SectionFlags::add(CLI::App& command, config::Section& section, const std::string& owner, bool several) {
  const std::string note = several ? " [" + owner + "]" : "";
  EachSetting each([&](const config::Setting& setting) {
    const auto known = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.key == setting.key; });
    const auto help_of = [&] {
      std::string help = setting.help;
      if (!help.empty()) help[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(help[0])));
      return help;
    };
    if (known != flags_.end()) {
      known->owners.push_back(owner);
      const std::string help = known->option->get_description();
      if (!help.starts_with(help_of())) known->option->description(help + "; " + setting.help + note);
      return;
    }
    Flag flag{setting.key, flag_name(setting.key),          {owner},
              nullptr,     std::make_shared<std::string>(), std::make_shared<bool>()};
    std::string help = help_of();
    if (std::holds_alternative<bool*>(setting.value)) {
      flag.option = command.add_flag(flag.name, *flag.is_set, help + note);
    } else {
      const std::string default_text = default_of(section, setting.key);
      if (default_text != "null") help += " (default " + default_text + ")";
      flag.option = command.add_option(flag.name, *flag.text, help + note)->type_name(type_name(setting.value));
    }
    flags_.push_back(flag);
  });
  section.fields(each);
}

void SectionFlags::apply(config::Section& section, const std::string& run, const std::string& task) const {
  std::set<std::string> own;
  EachSetting each([&](const config::Setting& setting) { own.insert(setting.key); });
  section.fields(each);
  config::Node document;
  document.kind = config::Node::Kind::kMap;
  for (const Flag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    if (!own.contains(flag.key)) {
      fail_usage("{}: {} is for runs of {}, the task of this one is {}", run, flag.name,
                 fmt::join(flag.owners, " and "), task);
    }
    config::Node value;
    value.kind = config::Node::Kind::kScalar;
    value.text = flag.option->get_expected_max() == 0 ? "true" : *flag.text;
    value.origin.argument = flag.option->get_expected_max() == 0 ? flag.name : flag.name + "=" + value.text;
    document.entries.push_back({flag.key, value.origin, value});
  }
  config::read(section, document);
}

}  // namespace fovea::cli
