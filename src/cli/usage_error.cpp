#include "usage_error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "fovea/config/explain.h"
#include "fovea/config/nearest_setting.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/train/experiment.h"
#include "help.h"

namespace fovea::cli {
namespace {

// The command that was parsed, innermost.
const CLI::App& parsed_command(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : parsed_command(*parsed.front());
}

bool takes_settings(const CLI::App& command) {
  const auto options = command.get_options([](const CLI::Option* o) { return o->get_positional(); });
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* o) { return o->get_option_text().find("KEY=VALUE") != std::string::npos; });
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
    for (const auto& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

[[noreturn]] void fail_extra(const CLI::App& app, const CLI::App& command, const tasks::Registry& registry) {
  const auto extras = app.remaining(true);
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const std::string& e) { return e.starts_with("-"); });
  const std::string more = fmt::format("\n`{} --help` lists what it takes", full_name(command));
  if (option == extras.end()) {
    fail_usage("{} takes no argument '{}'{}", full_name(command), extras.empty() ? "" : extras.front(), more);
  }
  const std::string name = option->substr(0, option->find('='));
  const std::string word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::string hint;
  const std::string near = nearest(word, option_names(command));
  const std::string key = takes_settings(command) ? setting_meant(word, registry) : std::string();
  const std::string last = key.substr(key.rfind('.') + 1);
  std::string as_key = word;
  std::replace(as_key.begin(), as_key.end(), '-', '_');
  if (!key.empty() && (near.empty() || last == as_key || key == as_key)) {
    hint = fmt::format("; did you mean the setting {}=VALUE?", key);
  } else if (!near.empty()) {
    hint = fmt::format("; did you mean --{}?", near);
  }
  fail_usage("{} has no option '{}'{}{}", full_name(command), name, hint, more);
}

// The option that a message of CLI11 is about: "--output is required", "Expected exactly 1 arguments to --beam, got 2".
const CLI::Option* named_option(const CLI::App& command, const std::string& message) {
  std::istringstream words(message);
  for (std::string word; words >> word;) {
    word.erase(word.find_last_not_of(":,") + 1);
    for (const CLI::Option* option : command.get_options()) {
      if (option->check_name(word)) return option;
    }
  }
  return nullptr;
}

std::string what_is_expected(const CLI::Option& option) {
  return option.get_expected_max() == 0 ? "no value" : option.get_type_name();
}

}  // namespace

void fail_parse(const CLI::App& app, const CLI::ParseError& error, const tasks::Registry& registry) {
  const CLI::App& command = parsed_command(app);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) fail_extra(app, command, registry);
  const std::string message = error.what();
  const CLI::Option* option = named_option(command, message);
  const std::string more = fmt::format("\n`{} --help` tells more", full_name(command));
  if (option == nullptr) fail_usage("{}: {}{}", full_name(command), message, more);
  const std::string label = option->get_positional() ? full_name(command) : option_name(*option);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (option->get_positional()) {
      fail_usage("{}: expected {}: {}{}", label, positional_label(*option), option->get_description(), more);
    }
    fail_usage("{}: {} {} is missing: {}{}", full_name(command), label, option->get_type_name(),
               option->get_description(), more);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const auto most = static_cast<size_t>(option->get_expected_max());
    if (most > 1 && option->count() > most) {
      fail_usage("{}: expected {}, {} at most, got {}: {}{}", label, option->get_type_name(), most, option->count(),
                 option->get_description(), more);
    }
    if (option->count() > 1) fail_usage("{}: given {} times, expected once{}", label, option->count(), more);
    fail_usage("{}: expected {} after it: {}{}", label, what_is_expected(*option), option->get_description(), more);
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    for (const CLI::Option* other : option->get_excludes()) {
      if (other->count() > 0) fail_usage("{} and {} do not go together; give one{}", label, option_name(*other), more);
    }
  }
  fail_usage("{}: {}{}", full_name(command), message, more);
}

std::string setting_meant(const std::string& word, const tasks::Registry& registry) {
  const auto lines = config::explain(train::ExperimentConfig(registry));
  for (const auto& line : lines) {
    if (line.what == config::Explained::What::kSetting && line.key == word) return line.key;
  }
  return config::nearest_setting(word, lines);
}

const CLI::App& command_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const auto& word : words) {
    const auto below = at->get_subcommands([&word](const CLI::App* c) { return c->get_name() == word; });
    if (below.empty()) break;
    at = below.front();
  }
  return *at;
}

void check_commands(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const auto& word : words) {
    if (word.starts_with("-")) return;
    const auto commands = shown_commands(*at);
    if (commands.empty()) return;
    const CLI::App& next = command_of(*at, {word});
    if (&next == at) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) names.push_back(command->get_name());
      fail_usage("{} has no command '{}'{} (it has {})", full_name(*at), word, did_you_mean(word, names),
                 fmt::join(names, ", "));
    }
    at = &next;
  }
}

}  // namespace fovea::cli
