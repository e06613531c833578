#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea::cli {

/// Part of a help text: a paragraph, or command lines to copy.
struct HelpBlock {
  std::string text;                // of a paragraph, on one line
  std::vector<std::string> lines;  // commands; then `text` is empty
};

struct HelpEntry {
  std::string name;  // "-o, --output FILE"
  std::string help;
};

/// What there is to say of a command, taken from its declaration: what help and man pages are made of.
struct CommandPage {
  std::string name;   // "fovea config list"
  std::string usage;  // "fovea train CONFIG.yaml [KEY=VALUE ...] [OPTIONS]"
  std::string summary;
  std::vector<HelpEntry> arguments, commands, options;
  std::vector<HelpBlock> notes;
  std::string exit_status;

  explicit CommandPage(const CLI::App& command);
  /// The page for a terminal of `width` columns; 0: no limit.
  std::string text(int64_t width) const;
  /// The page in troff's man macros, for `man`.
  std::string man() const;

 private:
  void add_argument(const CLI::Option& option);
};

/// "fovea config list"
std::string full_name(const CLI::App& command);
/// The commands below a command that users are told of.
std::vector<const CLI::App*> shown_commands(const CLI::App& command);
/// How a positional argument is written: "CONFIG.yaml [KEY=VALUE ...]", "REFERENCES".
std::string positional_label(const CLI::Option& option);
/// The longest name of an option: "--output".
std::string option_name(const CLI::Option& option);

/// Prints CLI11's help as CommandPage has it, as wide as the terminal.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace fovea::cli
