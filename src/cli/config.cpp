#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/config/explain.h"
#include "fovea/core/error.h"
#include "fovea/core/table.h"
#include "fovea/core/user_path.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

// The first comment of a config says what it is.
std::string first_comment(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto start = line.find_first_not_of("# ");
  return line.starts_with("#") && start != std::string::npos ? line.substr(start) : "";
}

void list_configs(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Table configs({.header = {"config", "what it is"}, .width = output_width()});
  for (const auto& file : files) configs.add_row({file.string(), first_comment(file)});
  std::cout << configs.str() << "\n";
}

int list(const std::string& directory, const tasks::Registry& registry) {
  if (!directory.empty() && !fs::is_directory(directory)) fail_usage("{}: there is no such directory", directory);
  const fs::path where = directory.empty() ? "configs" : directory;
  if (fs::is_directory(where)) list_configs(where);

  Table models({.header = {"model", "d2l", "takes", "what it is"}, .width = output_width()});
  for (const auto& model : registry.models) {
    models.add_row({model.named.name, model.chapter, model.takes, model.named.summary});
  }
  std::cout << models.str() << "\n";
  Table datasets({.header = {"data", "task", "what it is"}, .width = output_width()});
  for (const auto& task : registry.tasks) {
    for (const auto& data : task.datasets) datasets.add_row({data.named.name, task.name, data.named.summary});
  }
  std::cout << datasets.str();
  return 0;
}

int show(const std::vector<std::string>& positionals, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(positionals);
  std::cout << config::dump(
      train::load_experiment(registry, arguments.only("a configuration file", registry), arguments.overrides));
  return 0;
}

void validate_file(const std::string& file, const std::vector<std::string>& overrides,
                   const tasks::Registry& registry) {
  const auto config = train::load_experiment(registry, file, overrides);
  try {
    registry.check(config);
  } catch (const Error& e) {
    fail_usage("{}: {}", file, e.what());
  }
}

int validate(const std::vector<std::string>& positionals, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(positionals);
  arguments.check_words(registry);
  if (arguments.words.empty()) fail_usage("expected a configuration file");
  int status = 0;
  for (const auto& word : arguments.words) {
    try {
      const std::string file = user_path(word);
      validate_file(file, arguments.overrides, registry);
      std::cout << file << ": ok\n";
    } catch (const Error& e) {
      std::cerr << for_errors(e.what()) << "\n";
      status = 2;
    }
  }
  return status;
}

int explain(const std::string& about, const tasks::Registry& registry) {
  std::cout << config::explain_table(train::ExperimentConfig(registry), about, output_width());
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto* command = app.add_subcommand("config", "List, show, validate and explain configurations");
  command->require_subcommand(0, 1);
  auto text = std::make_shared<std::string>();
  auto words = std::make_shared<std::vector<std::string>>();

  auto* list_command = command->add_subcommand("list", "The configs of a directory, the models and the kinds of data");
  list_command->add_option("directory", *text, "Where to look (default configs)")->option_text("[DIR]");
  auto* show_command = command->add_subcommand("show", "The resolved configuration, as a run would have it");
  add_arguments(*show_command, *words, "CONFIG.yaml [KEY=VALUE ...]",
                "CONFIG.yaml\tThe file\nKEY=VALUE\tSettings that replace those in the file");
  auto* validate_command =
      command->add_subcommand("validate", "Check files and settings; exit status 2 if one is wrong");
  add_arguments(*validate_command, *words, "CONFIG.yaml ... [KEY=VALUE ...]",
                "CONFIG.yaml\tThe files\nKEY=VALUE\tSettings that replace those in the files");
  auto* explain_command =
      command->add_subcommand("explain", "Every setting: what it means, its type, limits and default");
  explain_command
      ->add_option("about", *text, "Only this section, key, model or kind of data: train, num_heads, vit, translation")
      ->option_text("[TOPIC]");
  explain_command->footer("Where the output is no terminal, each setting is one line. COLUMNS=80 wraps it there too.");

  commands.emplace_back(list_command, [text, &registry] { return list(*text, registry); });
  commands.emplace_back(show_command, [words, &registry] { return show(*words, registry); });
  commands.emplace_back(validate_command, [words, &registry] { return validate(*words, registry); });
  commands.emplace_back(explain_command, [text, &registry] { return explain(*text, registry); });
}

}  // namespace fovea::cli
