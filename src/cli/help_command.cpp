#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/output.h"
#include "fovea/core/terminal.h"
#include "help.h"
#include "usage_error.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPageWidth = 80;

const CLI::App& find_command(const CLI::App& app, const std::vector<std::string>& words) {
  check_commands(app, words);
  const CLI::App& command = command_of(app, words);
  const std::string name = full_name(command);
  const auto depth = static_cast<size_t>(std::count(name.begin(), name.end(), ' '));
  if (depth < words.size()) fail_usage("{} has no command '{}'", name, words[depth]);
  return command;
}

// fovea.1, fovea-train.1, fovea-config-list.1 ...
void write_pages(const CLI::App& command, const fs::path& dir) {
  std::string name = full_name(command);
  for (char& c : name) c = c == ' ' ? '-' : c;
  const fs::path page = check_output({.path = dir / (name + ".1"), .option = "--directory", .overwrite = true});
  replace_file(page, CommandPage(command).man());
  for (const CLI::App* below : shown_commands(command)) write_pages(*below, dir);
}

}  // namespace

void add_help(CLI::App& app, Commands& commands) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto* help = app.add_subcommand("help", "Print the page of a command");
  add_arguments(*help, *words, "[COMMAND ...]", "Which command: train, config list; none: the program");
  commands.emplace_back(help, [words, &app] {
    std::cout << CommandPage(find_command(app, *words)).text(terminal_width(STDOUT_FILENO, kPageWidth));
    return 0;
  });

  auto dir = std::make_shared<std::string>();
  auto* man = app.add_subcommand("man", "Print the man page of a command, or write those of all");
  add_arguments(*man, *words, "[COMMAND ...]", "Which command; none: the program");
  man->add_option("--directory", *dir, "Write fovea.1, fovea-train.1 and so on into this directory")
      ->type_name("DIR")
      ->transform(as_path());
  man->footer(
      "Examples:\n"
      "  fovea man train | man -l -\n"
      "  fovea man --directory ~/.local/share/man/man1");
  commands.emplace_back(man, [words, dir, &app] {
    const CLI::App& command = find_command(app, *words);
    if (dir->empty()) {
      std::cout << CommandPage(command).man();
      return 0;
    }
    std::error_code error;
    fs::create_directories(*dir, error);
    if (!fs::is_directory(*dir)) fail_usage("--directory {}: cannot be made: {}", *dir, error.message());
    write_pages(command, *dir);
    return 0;
  });
}

}  // namespace fovea::cli
