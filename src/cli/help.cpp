#include "help.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "fovea/core/display.h"
#include "fovea/core/table.h"
#include "fovea/core/terminal.h"
#include "fovea/core/version.h"

namespace fovea::cli {
namespace {

constexpr int64_t kDefaultWidth = 80;
constexpr int64_t kIndent = 2;
constexpr int64_t kCommandIndent = 4;  // of the further lines of a command
constexpr const char* kExitStatus =
    "0 done; 1 the work failed; 2 what was given is wrong: an argument, a setting, or a file that they name.";

// Lines that begin with two spaces are commands; the others are paragraphs, which a line break does not end.
std::vector<HelpBlock> blocks_of(const std::string& text) {
  std::vector<HelpBlock> blocks;
  std::istringstream lines(text);
  bool begins_paragraph = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      begins_paragraph = true;
    } else if (line.starts_with("  ")) {
      if (blocks.empty() || blocks.back().lines.empty()) blocks.push_back({});
      blocks.back().lines.push_back(line.substr(2));
      begins_paragraph = true;
    } else if (begins_paragraph) {
      blocks.push_back({.text = line, .lines = {}});
      begins_paragraph = false;
    } else {
      blocks.back().text += " " + line;
    }
  }
  return blocks;
}

std::string option_label(const CLI::Option& option) {
  std::string label;
  for (const auto& name : option.get_snames()) label += (label.empty() ? "-" : ", -") + name;
  for (const auto& name : option.get_lnames()) label += (label.empty() ? "--" : ", --") + name;
  if (option.get_expected_max() != 0) label += " " + option.get_type_name();
  if (option.get_expected_max() > 1) label += " ...";
  return label;
}

std::string option_help(const CLI::Option& option) {
  std::string help = option.get_description();
  if (!option.get_default_str().empty()) help += fmt::format(" (default {})", option.get_default_str());
  if (option.get_required()) help += " (required)";
  return help;
}

std::string entries_text(const std::string& title, const std::vector<HelpEntry>& entries, int64_t width) {
  if (entries.empty()) return "";
  Table table({.width = width, .indent = kIndent});
  for (const auto& entry : entries) table.add_row({entry.name, entry.help});
  return "\n" + title + ":\n" + table.str();
}

std::string paragraph(const std::string& text, int64_t width) {
  std::string lines;
  for (const auto& line : wrap_width(text, width > 0 ? width : kUnlimitedWidth)) lines += line + "\n";
  return lines;
}

// Text that troff takes for nothing but text.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if (c == '~') {
      safe += "\\(ti";
    } else if (c == '^') {
      safe += "\\(ha";
    } else if (c == '\'') {
      safe += "\\(aq";
    } else if (c == '`') {
      safe += "\\(ga";
    } else {
      safe += c;
    }
  }
  return safe.starts_with(".") ? "\\&" + safe : safe;
}

std::string man_name(std::string name) {
  for (char& c : name) c = c == ' ' ? '-' : c;
  return name;
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::vector<const CLI::App*> shown_commands(const CLI::App& command) {
  return command.get_subcommands(
      [](const CLI::App* below) { return !below->get_name().empty() && !below->get_group().empty(); });
}

std::string positional_label(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  std::string name = option.get_name();
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return option.get_required() ? name : "[" + name + "]";
}

std::string option_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "-" + option.get_snames().front() : "--" + option.get_lnames().front();
}

CommandPage::CommandPage(const CLI::App& command)
    : name(full_name(command)),
      usage(name),
      summary(command.get_description()),
      notes(blocks_of(command.get_footer())),
      exit_status(kExitStatus) {
  for (const CLI::App* below : shown_commands(command)) {
    commands.push_back({below->get_name(), below->get_description()});
  }
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      usage += " " + positional_label(*option);
      add_argument(*option);
    } else {
      options.push_back({option_label(*option), option_help(*option)});
    }
  }
  if (!commands.empty()) usage += " COMMAND";
  usage += " [OPTIONS]";
}

// A list of positionals that mean different things has a line "NAME\thelp" for each.
void CommandPage::add_argument(const CLI::Option& option) {
  const std::string help = option_help(option);
  if (help.find('\t') == std::string::npos) {
    arguments.push_back({positional_label(option), help});
    return;
  }
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    arguments.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
}

std::string CommandPage::text(int64_t width) const {
  std::string page;
  for (const auto& line : wrap_width("Usage: " + usage, width > 0 ? width : kUnlimitedWidth)) page += line + "\n";
  page += "\n" + paragraph(summary + ".", width);
  page += entries_text("Arguments", arguments, width) + entries_text("Commands", commands, width) +
          entries_text("Options", options, width);
  for (const auto& block : notes) {
    if (block.lines.empty()) {
      page += "\n" + paragraph(block.text, width);
      continue;
    }
    for (const auto& command : block.lines) {
      for (const auto& line : wrap_command(command, width > 0 ? width - kIndent : kUnlimitedWidth)) {
        page += std::string(kIndent, ' ') + line + "\n";
      }
    }
  }
  return page + "\n" + paragraph("Exit status: " + exit_status, width);
}

std::string CommandPage::man() const {
  std::string title = man_name(name);
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string page = fmt::format(".TH {} 1 \"\" \"fovea {}\" \"fovea\"\n", roff(title), kVersion);
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(man_name(name)), roff(summary));
  page += fmt::format(".SH SYNOPSIS\n{}\n", roff(usage));
  const auto add_entries = [&page](const char* heading, const std::vector<HelpEntry>& entries) {
    if (entries.empty()) return;
    page += fmt::format(".SH {}\n", heading);
    for (const auto& entry : entries) {
      page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(entry.name), roff(entry.help));
    }
  };
  add_entries("ARGUMENTS", arguments);
  add_entries("COMMANDS", commands);
  add_entries("OPTIONS", options);
  if (!notes.empty()) page += ".SH NOTES\n";
  for (const auto& block : notes) {
    if (block.lines.empty()) {
      page += ".PP\n" + roff(block.text) + "\n";
      continue;
    }
    page += ".RS 2\n.nf\n";
    for (const auto& command : block.lines) {
      for (const auto& line : wrap_command(command, kDefaultWidth - 14)) page += roff(line) + "\n";
    }
    page += ".fi\n.RE\n";
  }
  page += ".SH EXIT STATUS\n" + roff(exit_status) + "\n";
  if (!commands.empty()) {
    page += ".SH SEE ALSO\n";
    for (size_t i = 0; i < commands.size(); ++i) {
      page += fmt::format(".BR {} (1){}\n", roff(man_name(name + " " + commands[i].name)),
                          i + 1 < commands.size() ? "," : "");
    }
  } else {
    page += ".SH SEE ALSO\n.BR fovea (1)\n";
  }
  return page;
}

std::string HelpFormatter::make_help(const CLI::App* command, std::string, CLI::AppFormatMode) const {
  return CommandPage(*command).text(terminal_width(STDOUT_FILENO, kDefaultWidth));
}

}  // namespace fovea::cli
