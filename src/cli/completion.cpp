#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "command.h"
#include "fovea/config/document.h"
#include "fovea/config/explain.h"
#include "fovea/core/error.h"
#include "fovea/core/user_path.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/experiment.h"
#include "help.h"
#include "usage_error.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

// The shells ask the program itself (`fovea complete`), so that what they offer is what it takes.
constexpr const char* kBash =
    R"sh(# Completion of fovea in bash. Put this line into ~/.bashrc: source <(fovea completion bash)
_fovea() {
    local line=${COMP_LINE:0:COMP_POINT} words current found
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    mapfile -t found < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
    # What ends in = or / is to be gone on with: no space after it.
    [[ ${#found[@]} -gt 0 && ${found[0]} == *[=/] ]] && compopt -o nospace
    # bash replaces only what stands behind a '='.
    if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then
        found=("${found[@]#"${current%"${current##*=}"}"}")
    fi
    COMPREPLY=()
    local one
    for one in "${found[@]}"; do COMPREPLY+=("$(printf '%q' "$one")");
done
}
complete -F _fovea fovea
)sh";

constexpr const char* kZsh = R"sh(#compdef fovea
# Completion of fovea in zsh. Put this line into ~/.zshrc, after compinit: source <(fovea completion zsh)
_fovea() {
    local -a found
    found=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
    [[ -n ${found[1]} ]] || return 1
    # What ends in = or / is to be gone on with: no space after it.
    compadd -S '' -- "${(@M)found:#*[=/]}"
    compadd -- "${(@)found:#*[=/]}"
}
compdef _fovea fovea
)sh";

// Collects what may stand in place of a word that has been begun.
class Candidates {
 public:
  explicit Candidates(std::string begun) : begun_(std::move(begun)) {}

  void add(const std::string& word) {
    if (word.starts_with(begun_) && !word.empty()) words_.push_back(word);
  }

  /// Files and directories; `wanted` says which files. `prefix` stands before the path: "data.path=".
  template <typename Wanted>
  void add_paths(const std::string& prefix, const Wanted& wanted) {
    if (!begun_.starts_with(prefix)) return;
    const std::string path = begun_.substr(prefix.size());
    const size_t slash = path.rfind('/');
    const std::string dir = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    std::error_code error;
    for (fs::directory_iterator at(dir.empty() ? "." : dir, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      const bool is_hidden = name.starts_with(".") && path.substr(dir.size()).empty();
      std::error_code ignored;
      if (is_hidden) continue;
      if (at->is_directory(ignored)) {
        add(prefix + dir + name + (wanted(at->path()) ? "" : "/"));
      } else if (wanted(at->path())) {
        add(prefix + dir + name);
      }
    }
  }

  std::vector<std::string> sorted() {
    std::sort(words_.begin(), words_.end());
    words_.erase(std::unique(words_.begin(), words_.end()), words_.end());
    return words_;
  }

 private:
  std::string begun_;
  std::vector<std::string> words_;
};

bool is_yaml(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}
bool is_run(const fs::path& path) {
  return fs::exists(path / train::kConfigFile);
}
bool is_folder(const fs::path& path) {
  return fs::is_directory(path);
}
bool is_any_file(const fs::path& path) {
  return !fs::is_directory(path);
}

void add_values(Candidates& candidates, const config::Explained& line) {
  const std::string prefix = line.key + "=";
  constexpr std::string_view kOneOf = "one of ";
  if (line.expected.starts_with(kOneOf)) {
    std::string names = line.expected.substr(kOneOf.size());
    for (size_t at = 0; at < names.size();) {
      const size_t end = std::min(names.find_first_of(", ", at), names.size());
      candidates.add(prefix + names.substr(at, end - at));
      at = std::min(names.find_first_not_of(", ", end), names.size());
      if (names.substr(at) == "or null") break;
    }
  } else if (line.expected.starts_with("true or false")) {
    candidates.add(prefix + "true");
    candidates.add(prefix + "false");
  } else if (line.expected.find("file path") != std::string::npos) {
    candidates.add_paths(prefix, is_any_file);
  }
}

// The names that the sections have by the words before: "model" -> "vit", by the YAML files among them, then by
// settings such as model.name=vit. A file that cannot be read says nothing.
std::map<std::string, std::string> chosen_names(const std::vector<std::string>& words) {
  config::Node document;
  for (const auto& word : words) {
    try {
      if (word.find('=') == std::string::npos && is_yaml(word)) {
        document = config::load_yaml(user_path(word));
      } else if (word.find(".name=") != std::string::npos) {
        config::apply_override(document, word);
      }
    } catch (const Error&) {
      continue;
    }
  }
  std::map<std::string, std::string> names;
  for (const char* section : {"model", "data", "optimizer", "schedule"}) {
    const auto* entry = document.find_path(std::string(section) + ".name");
    if (entry != nullptr) names[section] = entry->value.text;
  }
  return names;
}

// Whether the setting is there with the names that were chosen, as far as they are known.
bool belongs(const config::Explained& line, const std::map<std::string, std::string>& chosen) {
  const auto name = chosen.find(line.key.substr(0, line.key.find('.')));
  if (line.entry.empty() || name == chosen.end()) return true;
  return line.outer.empty() ? line.entry == name->second : line.outer.front() == name->second;
}

// Settings whose first part is `section`, or all: keys, and behind a '=' values.
void add_settings(Candidates& candidates, const std::string& begun, const std::string& section,
                  const std::vector<std::string>& words, const tasks::Registry& registry) {
  const auto chosen = chosen_names(words);
  for (const auto& line : config::explain(train::ExperimentConfig(registry))) {
    if (line.what != config::Explained::What::kSetting || !line.key.starts_with(section)) continue;
    if (!belongs(line, chosen)) continue;
    if (begun.starts_with(line.key + "=")) {
      add_values(candidates, line);
    } else {
      candidates.add(line.key + "=");
    }
  }
}

// What `config explain` explains: sections, keys, their last parts, names of models and kinds of data.
void add_topics(Candidates& candidates, const tasks::Registry& registry) {
  for (const auto& line : config::explain(train::ExperimentConfig(registry))) {
    candidates.add(line.key);
    candidates.add(line.key.substr(line.key.rfind('.') + 1));
    candidates.add(line.entry);
  }
}

void add_option_values(Candidates& candidates, const CLI::Option& option, const std::vector<std::string>& words) {
  const std::string type = option.get_type_name();
  const std::string name = option_name(option);
  if (name == "--checkpoint") {
    candidates.add("best");
    candidates.add("last");
    for (const auto& word : words) {
      std::error_code error;
      for (fs::directory_iterator at(fs::path(word) / "checkpoints", error), end; !error && at != end;
           at.increment(error)) {
        candidates.add(at->path().filename().string());
      }
    }
  } else if (name == "--split") {
    for (const char* part : {"train", "validation", "test"}) candidates.add(part);
  } else if (name == "--format") {
    for (const char* format : {"torchscript", "safetensors"}) candidates.add(format);
  } else if (type == "RUN") {
    candidates.add_paths("", is_run);
  } else if (type == "DIR") {
    candidates.add_paths("", is_folder);
  } else if (type == "FILE" || type == "NAME") {
    candidates.add_paths("", is_any_file);
  }
}

std::vector<std::string> complete(const CLI::App& app, std::vector<std::string> words,
                                  const tasks::Registry& registry) {
  while (words.size() > 1 && words.front().empty()) words.erase(words.begin());  // of a shell that quotes nothing
  if (words.empty()) words.emplace_back();
  const std::string begun = words.back();
  words.pop_back();
  Candidates candidates(begun);

  const CLI::App* command = &command_of(app, words);
  for (const CLI::App* at = command; at != &app; at = at->get_parent()) words.erase(words.begin());

  const size_t equals = begun.find('=');
  if (begun.starts_with("--") && equals != std::string::npos) {  // --split=t
    const std::string name = begun.substr(0, equals + 1);
    Candidates values(begun.substr(equals + 1));
    for (const CLI::Option* option : command->get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
      if (option->check_name(begun.substr(0, equals))) add_option_values(values, *option, words);
    }
    for (const auto& value : values.sorted()) candidates.add(name + value);
    return candidates.sorted();
  }
  if (!words.empty() && words.back().starts_with("-") && words.back().find('=') == std::string::npos) {
    for (const CLI::Option* option : command->get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
      if (!option->check_name(words.back()) || option->get_expected_max() == 0) continue;
      add_option_values(candidates, *option, words);
      return candidates.sorted();
    }
  }
  if (begun.starts_with("-")) {
    for (const CLI::Option* option : command->get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
      for (const auto& name : option->get_lnames()) candidates.add("--" + name);
    }
    return candidates.sorted();
  }
  if (words.empty()) {
    for (const CLI::App* below : shown_commands(*command)) candidates.add(below->get_name());
  }
  for (const CLI::Option* option : command->get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    const std::string usage = option->get_option_text();
    if (usage.find("[COMMAND") != std::string::npos) {
      for (const CLI::App* below : shown_commands(command_of(app, words))) candidates.add(below->get_name());
    }
    const bool takes_many = usage.find("RUN ...") != std::string::npos || usage.find("DIR ...") != std::string::npos;
    if (usage.find("CONFIG.yaml") != std::string::npos) candidates.add_paths("", is_yaml);
    if (usage.find("RUN") != std::string::npos && (words.empty() || takes_many)) candidates.add_paths("", is_run);
    if (usage.find("runtime.KEY") != std::string::npos) {
      add_settings(candidates, begun, "runtime.", words, registry);
    } else if (usage.find("KEY=VALUE") != std::string::npos) {
      add_settings(candidates, begun, "", words, registry);
    }
    if (usage.find("TOPIC") != std::string::npos && words.empty()) add_topics(candidates, registry);
    if (usage.find("DIR") != std::string::npos && (words.empty() || takes_many)) candidates.add_paths("", is_folder);
    if (usage.find("bash | zsh") != std::string::npos && words.empty()) {
      for (const char* shell : {"bash", "zsh"}) candidates.add(shell);
    }
    const bool takes_files = usage.empty() || usage.find("FILE") != std::string::npos ||
                             usage.find("IMAGE") != std::string::npos || usage.find("WEIGHTS") != std::string::npos;
    if (takes_files) candidates.add_paths("", is_any_file);
  }
  return candidates.sorted();
}

}  // namespace

void add_completion(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto shell = std::make_shared<std::string>();
  auto* completion = app.add_subcommand("completion", "Print the completion script for a shell");
  completion->add_option("shell", *shell, "bash or zsh")->option_text("{bash | zsh}")->required();
  completion->footer(
      "Examples:\n"
      "  source <(fovea completion bash)\n"
      "  source <(fovea completion zsh)\n"
      "Put the line into ~/.bashrc, or into ~/.zshrc after compinit. It completes commands, options, settings and "
      "their "
      "values, configurations, runs and checkpoints.");
  commands.emplace_back(completion, [shell] {
    if (*shell != "bash" && *shell != "zsh") fail_usage("expected bash or zsh, got '{}'", *shell);
    std::cout << (*shell == "bash" ? kBash : kZsh);
    return 0;
  });

  auto words = std::make_shared<std::vector<std::string>>();
  auto* asked = app.add_subcommand("complete", "What may stand in place of the last word")->group("");
  add_arguments(*asked, *words, "-- WORD ...", "The words of a command line up to the cursor, without the program");
  commands.emplace_back(asked, [words, &app, &registry] {
    for (const auto& word : complete(app, *words, registry)) std::cout << word << "\n";
    return 0;
  });
}

}  // namespace fovea::cli
