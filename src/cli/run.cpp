#include "run.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/core/version.h"

namespace fovea::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// Warnings and errors go to stderr, so that what a command prints can be piped.
void set_up_logging() {
  if (spdlog::get("fovea") != nullptr) return;  // a process may run several commands
  auto logger = spdlog::stderr_color_st("fovea");
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') {
    dynamic_cast<spdlog::sinks::stderr_color_sink_st&>(*logger->sinks()[0]).set_color_mode(spdlog::color_mode::never);
  }
  logger->set_pattern("%^%l%$: %v");
  spdlog::set_default_logger(logger);
}

// Names a command that there is not; CLI11 would only say that one is required.
void check_commands(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return;
    std::vector<std::string> names;
    at = nullptr;
    for (const CLI::App* command : commands) {
      names.push_back(command->get_name());
      if (names.back() == argv[i]) at = command;
    }
    if (at == nullptr) {
      fail_usage("there is no command '{}'{}; there are {}", argv[i], did_you_mean(argv[i], names),
                 fmt::join(names, ", "));
    }
  }
}

int run_command(const tasks::Registry& registry, int argc, const char* const* argv) {
  CLI::App app("Train, evaluate and use the attention models of Dive into Deep Learning.", "fovea");
  app.set_version_flag("--version", std::string("fovea ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done; 1 failed while running; 2 wrong usage or configuration;\n"
      "130 or 143 interrupted by SIGINT or SIGTERM, after saving and validating.\n"
      "`fovea COMMAND --help` tells more.");
  Commands commands;
  add_train(app, commands, registry);
  add_predict(app, commands, registry);
  add_evaluate(app, commands, registry);
  add_score(app, commands);
  add_export(app, commands, registry);
  add_import(app, commands, registry);
  add_config(app, commands, registry);
  add_info(app, commands);
  check_commands(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? EXIT_SUCCESS : kUsage;
  }
  for (const auto& [command, action] : commands) {
    if (!command->parsed()) continue;
    const int status = action();
    std::cout.flush();
    if (!std::cout) fail("cannot write to the standard output");
    return status;
  }
  return kUsage;
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
