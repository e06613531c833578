#include "command.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/core/terminal.h"
#include "fovea/core/user_path.h"
#include "usage_error.h"

namespace fovea::cli {
namespace {

// The top-level keys of an experiment.
const std::vector<std::string>& experiment_keys() {
  static const std::vector<std::string> keys = {"seed", "model", "data", "optimizer", "schedule", "train", "runtime"};
  return keys;
}

std::string first_key(const std::string& argument) {
  return argument.substr(0, argument.find_first_of(".="));
}

bool is_setting(const std::string& argument) {
  const auto& keys = experiment_keys();
  return argument.find('=') != std::string::npos && !std::filesystem::exists(argument) &&
         std::find(keys.begin(), keys.end(), first_key(argument)) != keys.end();
}

}  // namespace

CLI::Option* add_arguments(CLI::App& command, std::vector<std::string>& arguments, const std::string& usage,
                           const std::string& help) {
  // Brackets are expanded in options that take extra arguments; one that does not takes as many as it needs, so it
  // needs as many as there can be. With TakeAll nobody minds that there are fewer.
  constexpr int kMany = CLI::detail::expected_max_vector_size;
  return command.add_option("arguments", arguments, help)
      ->expected(kMany, kMany)
      ->option_text(usage)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Validator as_path() {
  return {[](std::string& text) {
            text = user_path(text);
            return std::string();
          },
          ""};
}

void add_quiet(CLI::App& command, bool& quiet) {
  command.add_flag("--quiet", quiet, "Print warnings and errors only");
}

void add_checkpoint(CLI::App& command, std::string& checkpoint) {
  command.add_option("--checkpoint", checkpoint, "best, last or step-N (default best, else last)")->type_name("NAME");
}

std::string Arguments::only(const std::string& what, const tasks::Registry& registry) const {
  check_words(registry);
  if (words.empty()) fail_usage("expected {}", what);
  if (words.size() > 1) fail_usage("expected {}, got '{}' and '{}' (a setting is key=value)", what, words[0], words[1]);
  return user_path(words[0]);
}

void Arguments::check_words(const tasks::Registry& registry) const {
  for (const auto& word : words) {
    if (word.find('=') == std::string::npos || std::filesystem::exists(word)) continue;
    const std::string key = word.substr(0, word.find('='));
    const bool has_section = key.find('.') != std::string::npos;  // it is wrong
    const std::string meant = has_section ? std::string() : setting_meant(key, registry);
    fail_usage("argument '{}': there is no setting '{}'{}", word, first_key(word),
               meant.empty() ? did_you_mean(first_key(word), experiment_keys())
                             : fmt::format("; did you mean {}=VALUE?", meant));
  }
}

Arguments split_arguments(const std::vector<std::string>& positionals) {
  Arguments arguments;
  for (const auto& argument : positionals) {
    (is_setting(argument) ? arguments.overrides : arguments.words).push_back(argument);
  }
  return arguments;
}

std::filesystem::path run_directory(const std::string& told, const std::filesystem::path& file) {
  if (!told.empty()) return told;
  if (!is_lasting(file)) {
    fail_usage("{}: a configuration that is no file gives the run no name; say where it goes (--run-dir)",
               file.string());
  }
  const std::filesystem::path named = file.has_filename() ? file : file.parent_path();  // "exported/"
  return std::filesystem::path("runs") / (named.extension() == ".gz" ? named.stem().stem() : named.stem());
}

int64_t output_width() {
  return terminal_width(STDOUT_FILENO, 0);
}

std::string for_output(const std::string& message) {
  return wrap_message(message, output_width());
}

std::string for_errors(const std::string& message) {
  return wrap_message(message, terminal_width(STDERR_FILENO, 0));
}

}  // namespace fovea::cli
