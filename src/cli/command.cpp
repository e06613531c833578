#include "command.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"

namespace fovea::cli {
namespace {

// "a.b=c": a key path before the first '='. A file of that very name is a file.
bool is_override(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos || std::filesystem::exists(argument)) return false;
  return std::all_of(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-'; });
}

}  // namespace

CLI::Option* add_arguments(CLI::App& command, std::vector<std::string>& arguments, const std::string& help) {
  // Brackets are expanded in options that take extra arguments; one that does not takes as many as it needs, so it
  // needs as many as there can be. With TakeAll nobody minds that there are fewer.
  constexpr int kMany = CLI::detail::expected_max_vector_size;
  return command.add_option("arguments", arguments, help)
      ->expected(kMany, kMany)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::string Arguments::only(const std::string& what) const {
  if (words.empty()) fail_usage("expected {}", what);
  if (words.size() > 1) fail_usage("expected {}, got '{}' and '{}' (a setting is key=value)", what, words[0], words[1]);
  return words[0];
}

Arguments split_arguments(const std::vector<std::string>& positionals) {
  Arguments arguments;
  for (const auto& argument : positionals) {
    (is_override(argument) ? arguments.overrides : arguments.words).push_back(argument);
  }
  return arguments;
}

std::vector<const CLI::Option*> add_search_options(CLI::App& command, translation::TranslatorOptions& options,
                                                   const std::string& note) {
  return {command.add_option("--beam", options.search.beam, "Hypotheses kept; 1 is greedy search" + note)
              ->capture_default_str(),
          command
              .add_option("--length-penalty", options.search.length_penalty,
                          "alpha: ranked by log-probability / length^alpha" + note)
              ->capture_default_str(),
          command.add_option("--max-len", options.max_len,
                             "Tokens in a translation at most (default: data.num_steps)" + note),
          command.add_option("--batch-size", options.batch_size, "Sentences at a time" + note)->capture_default_str()};
}

}  // namespace fovea::cli
