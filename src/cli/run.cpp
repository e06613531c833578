#include "run.h"

#include <c10/util/Exception.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string_view>

#include "command.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/terminal.h"
#include "fovea/core/version.h"
#include "help.h"
#include "usage_error.h"

namespace fovea::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int64_t kHelpWidth = 80;  // where there is no terminal

// The message, broken where the terminal ends.
class WrappedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    line.append(wrap_message(text, terminal_width(STDERR_FILENO, 0), static_cast<int64_t>(line.size())));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<WrappedMessage>(); }
};

// Warnings and errors go to stderr, so that what a command prints can be piped.
void set_up_logging() {
  if (spdlog::get("fovea") != nullptr) return;  // a process may run several commands
  auto logger = spdlog::stderr_color_st("fovea");
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') {
    dynamic_cast<spdlog::sinks::stderr_color_sink_st&>(*logger->sinks()[0]).set_color_mode(spdlog::color_mode::never);
  }
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<WrappedMessage>('*').set_pattern("%^%l%$: %*");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(logger);
}

int run_command(const tasks::Registry& registry, int argc, const char* const* argv) {
  CLI::App app("Train, evaluate and use the attention models of Dive into Deep Learning", "fovea");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this page");
  app.set_version_flag("--version", std::string("fovea ") + kVersion, "Print the version");
  app.require_subcommand(0, 1);  // behind the first, a word is an argument: `fovea help train`
  Commands commands;
  add_init(app, commands, registry);
  add_inspect(app, commands, registry);
  add_train(app, commands, registry);
  add_predict(app, commands, registry);
  add_evaluate(app, commands, registry);
  add_attend(app, commands, registry);
  add_report(app, commands, registry);
  add_picture(app, commands);
  add_score(app, commands);
  add_runs(app, commands);
  add_compare(app, commands, registry);
  add_sweep(app, commands, registry);
  add_plot(app, commands);
  add_export(app, commands, registry);
  add_import(app, commands, registry);
  add_config(app, commands, registry);
  add_info(app, commands);
  add_help(app, commands);
  add_completion(app, commands, registry);
  app.footer(
      "`train`, if interrupted (Ctrl-C, SIGTERM), saves, validates, and exits with 130 or 143.\n\n"
      "`fovea help COMMAND` tells more, for instance `fovea help train`.");

  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  check_commands(app, words);
  const CLI::App& named = command_of(app, words);
  const std::string name = full_name(named);
  const auto depth = static_cast<size_t>(std::count(name.begin(), name.end(), ' '));
  if (words.size() == depth && !shown_commands(named).empty()) {  // `fovea`, `fovea config`: which command?
    std::cerr << CommandPage(named).text(terminal_width(STDERR_FILENO, kHelpWidth));
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    fail_parse(app, e, registry);
  }
  for (const auto& [command, action] : commands) {
    if (!command->parsed()) continue;
    const int status = action();
    std::cout.flush();
    if (!std::cout) fail("cannot write to the standard output");
    return status;
  }
  fail_usage("expected a command, as in: fovea train configs/transformer_tiny.yaml");
}

}  // namespace

int run(const tasks::Registry& registry, int argc, const char* const* argv) {
  set_up_logging();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error like a full disk, not the end of the program
  try {
    return run_command(registry, argc, argv);
  } catch (const Error& e) {
    spdlog::error("{}", e.what());
    return e.kind() == ErrorKind::kUsage ? kUsage : kFailed;
  } catch (const c10::Error& e) {
    spdlog::error("unexpected: {}", e.what_without_backtrace());
    return kFailed;
  } catch (const std::bad_alloc&) {
    spdlog::error("there is not enough memory");
    return kFailed;
  } catch (const std::exception& e) {
    // Not ours, so not written for users: say what it is.
    spdlog::error("unexpected: {}", e.what());
    return kFailed;
  }
}

}  // namespace fovea::cli
