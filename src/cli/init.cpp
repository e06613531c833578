#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <variant>

#include "command.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/output.h"
#include "fovea/core/shell.h"
#include "fovea/core/table.h"
#include "fovea/core/user_path.h"
#include "fovea/core/utf8.h"
#include "help.h"
#include "plan.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCommentColumn = 34;  // where comments begin, if the setting is shorter
constexpr size_t kLineWidth = 110;     // of the file that is written

struct InitOptions {
  std::vector<std::string> files, validation, test;
  std::string output;
  bool overwrite = false, quiet = false;
};

std::vector<fs::path> ask_for_files() {
  std::cerr << for_errors(
      "Which files hold the data? For instance one file of source<TAB>target lines, two parallel files, a table of "
      "numbers, a folder with a folder of images for each class, or two IDX files of images and labels.\n"
      "One file a line, an empty line ends the list:\n");
  std::vector<fs::path> files;
  for (std::string line; std::getline(std::cin, line) && !line.empty();) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    try {
      files.push_back(data_argument(line));
    } catch (const Error& e) {
      std::cerr << for_errors(fmt::format("{}; once more:\n", e.what()));
    }
  }
  return files;
}

// A section of the configuration, keys in their order; `depth` is the number of keys above.
void print_section(std::string& yaml, const std::vector<train::ProposedSetting>& settings, const std::string& above,
                   size_t depth) {
  std::vector<std::string> done;
  for (const auto& setting : settings) {
    if (!setting.key.starts_with(above)) continue;
    const std::string rest = setting.key.substr(above.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (std::find(done.begin(), done.end(), key) != done.end()) continue;
    done.push_back(key);
    std::string line = std::string(2 * depth, ' ') + key + ":";
    if (key != rest) {
      yaml += line + "\n";
      print_section(yaml, settings, above + key + ".", depth + 1);
      continue;
    }
    line += " " + setting.value;
    if (setting.why.empty()) {
      yaml += line + "\n";
    } else if (line.size() + setting.why.size() + 4 > kLineWidth) {
      yaml += std::string(2 * depth, ' ') + "# " + setting.why + "\n" + line + "\n";
    } else {
      line.resize(std::max(line.size() + 2, kCommentColumn), ' ');
      yaml += line + "# " + setting.why + "\n";
    }
  }
}

std::string yaml_of(const Plan& plan, const tasks::ProposalRequest& request, const fs::path& output) {
  const auto& proposal = plan.proposal;
  std::string yaml =
      fmt::format("# {} with {}: {}.\n#\n#   fovea train {}\n#\n# Made by `fovea init` of:\n", plan.task->name,
                  plan.model, one_line(joined(request.files)), one_line(shell_quoted(output.string())));
  for (const auto& [name, text] : proposal.facts) yaml += fmt::format("#   {}: {}\n", one_line(name), one_line(text));
  for (const auto& warning : proposal.warnings) yaml += fmt::format("#   warning: {}\n", warning);
  yaml += "# `fovea config explain` says what every setting means.\n";
  std::vector<train::ProposedSetting> settings = {
      {"seed", "1", "decides the held-out parts, the first weights, the order of examples"}};
  for (const char* section : {"model.", "data.", "optimizer.", "schedule.", "train."}) {
    for (const auto& setting : proposal.settings) {
      if (setting.key.starts_with(section)) settings.push_back(setting);
    }
  }
  print_section(yaml, settings, "", 0);
  return yaml;
}

void print_next(const Plan& plan, const fs::path& output, int64_t width) {
  const std::string run = shell_quoted(run_directory("", output).string());
  const std::string verb = plan.task->verb.empty() ? "predict" : plan.task->verb;
  const auto& settings = plan.proposal.settings;
  const bool holds_out = std::any_of(settings.begin(), settings.end(), [](const auto& setting) {
    return (setting.key.starts_with("data.test") || setting.key.starts_with("data.validation")) && setting.value != "0";
  });
  std::vector<std::string> commands = {"fovea train " + shell_quoted(output.string())};
  if (holds_out) commands.push_back("fovea evaluate " + run);
  commands.push_back(fmt::format("fovea {} {} {}", verb, run, plan.proposal.example));
  std::cout << "\nNext:\n";
  for (const std::string& command : commands) {
    for (const auto& line : wrap_command(command, width > 0 ? width - 2 : kUnlimitedWidth)) {
      std::cout << "  " << line << "\n";
    }
  }
}

int init(const InitOptions& options, const tasks::Registry& registry) {
  tasks::ProposalRequest request{.files = {options.files.begin(), options.files.end()},
                                 .validation = {options.validation.begin(), options.validation.end()},
                                 .test = {options.test.begin(), options.test.end()},
                                 .relative_to = {}};
  if (request.files.empty() && ::isatty(STDIN_FILENO) == 1) request.files = ask_for_files();
  if (request.files.empty()) fail_usage("expected files of data, as in: fovea init corpus.tsv");
  for (auto* files : {&request.files, &request.validation, &request.test}) {
    for (auto& file : *files) file = data_argument(file.string());
  }
  fs::path output = options.output;
  if (output.empty()) {  // corpus.tsv.gz -> corpus.yaml
    fs::path stem = fs::absolute(request.files[0]).lexically_normal().filename();
    if (stem.extension() == ".gz") stem = stem.stem();
    output = stem.stem().string() + ".yaml";
  }
  if (output.extension() != ".yaml" && output.extension() != ".yml") {
    fail_usage("--output {}: expected a name that ends in .yaml", output.string());
  }
  if (!is_utf8(output.string())) {
    fail_usage("{}: the name is not UTF-8, so nothing in the configuration can name it; choose another with --output",
               output.string());
  }
  if (output.has_parent_path() && !fs::is_directory(output.parent_path())) {
    fail_usage("--output: there is no directory {}", output.parent_path().string());
  }
  std::vector<fs::path> sources;
  for (const auto* files : {&request.files, &request.validation, &request.test}) {
    sources.insert(sources.end(), files->begin(), files->end());
  }
  const fs::path place =
      check_output({.path = output, .option = "--output", .overwrite = options.overwrite, .sources = sources});
  request.relative_to = output.has_parent_path() ? output.parent_path() : fs::path(".");

  const Plan plan = make_plan(request, registry);
  replace_file(place, yaml_of(plan, request, output));
  for (const auto& warning : plan.proposal.warnings) spdlog::warn("{}", warning);
  if (options.quiet) return 0;
  const int64_t width = output_width();
  Table table({.width = width});
  table.add_row({"task", fmt::format("{} ({})", plan.task->name, plan.task->summary)});
  for (const auto& [name, text] : plan.proposal.facts) table.add_row({name, text});
  table.add_row({"model", plan.model});
  table.add_row({"written", output.string()});
  std::cout << table.str();
  print_next(plan, output, width);
  return 0;
}

}  // namespace

void add_init(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto options = std::make_shared<InitOptions>();
  auto* command = app.add_subcommand("init", "Write a configuration that fits files of your own");
  add_arguments(*command, options->files, "[FILE ...]",
                "The data to train on: a file of source<TAB>target lines, two parallel files, a table of numbers, a "
                "folder with a folder of images for each class, or two IDX files of images and labels; on a terminal, "
                "none: you are asked");
  command->add_option("-o,--output", options->output, "The file to write (default NAME.yaml for NAME.tsv)")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_option("--validation", options->validation, "Data to watch the training on (default held out of FILE)")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_option("--test", options->test, "Data to evaluate on (default held out of FILE)")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_flag("--overwrite", options->overwrite, "Replace a file that exists");
  add_quiet(*command, options->quiet);
  command->footer(
      "Examples:\n"
      "  fovea init corpus.tsv\n"
      "  fovea init train.en train.fr --test test.en test.fr -o english_french.yaml\n"
      "  fovea init photos\n"
      "It looks at lines, lengths, words, columns or pixels, and chooses the data's settings, the size of the model "
      "and "
      "the length of the training. The file has a comment at each choice; change what you like.");
  commands.emplace_back(command, [options, &registry] { return init(*options, registry); });
}

}  // namespace fovea::cli
