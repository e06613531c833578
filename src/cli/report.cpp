#include <spdlog/spdlog.h>

#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/output.h"
#include "fovea/plot/html_report.h"
#include "fovea/train/run_summary.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> positionals;
  std::string checkpoint;
  std::filesystem::path output;
  int64_t examples = 500, explained = 24;
  bool overwrite = false, allow_changed_data = false;
};

plot::RunPage::Rows summary_of(const train::RunSummary& run, const std::string& checkpoint) {
  plot::RunPage::Rows rows = {{"model", run.model},
                              {"data", run.data},
                              {"epochs", fmt::format("{} of {} ({})", run.epochs, run.max_epochs, name_of(run.state))},
                              {"minutes", fmt::format("{:.1f}", run.minutes)}};
  if (run.best) rows.emplace_back("best " + run.watched, fmt::format("{:.4g} at step {}", *run.best, run.best_step));
  rows.emplace_back("checkpoint", checkpoint);
  return rows;
}

// The curves, or none where the run has none to draw: an imported one.
plot::Curves curves_of(const std::filesystem::path& run) {
  try {
    return plot::read_curves({run}, {.x = plot::Axis::kEpoch});
  } catch (const Error& e) {
    spdlog::warn("no curves: {}", e.what());
    return {};
  }
}

int report(const ReportFlags& flags, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(flags.positionals);
  const std::string path = only_run(arguments, "fovea report runs/quickstart -o report.html", registry);
  const std::filesystem::path name = flags.output.empty() ? std::filesystem::path("report.html") : flags.output;
  if (name.extension() != ".html") fail_usage("{}: expected a name that ends in .html", name.string());
  const auto file = check_output(
      {.path = name, .option = "--output", .overwrite = flags.overwrite, .sources = {std::filesystem::path(path)}});
  const train::LoadedRun run = train::load_run(registry, path, flags.checkpoint, arguments.overrides);
  const tasks::Task& task = registry.task_of(run.assets->spec());
  const auto options = task.evaluate_options();
  Progress progress;
  tasks::Report scores = task.evaluate(run, {.allow_changed_data = flags.allow_changed_data,
                                             .options = options.get(),
                                             .progress = progress.is_terminal() ? &progress : nullptr});
  for (const auto& warning : scores.warnings) spdlog::warn("{}", warning);
  plot::RunPage page{.title = std::filesystem::path(path).lexically_normal().filename().string(),
                     .summary = summary_of(train::summarize_run(path), run.checkpoint.filename().string()),
                     .settings = {},
                     .data = {},
                     .curves = curves_of(path),
                     .scores = std::move(scores),
                     .examples = {}};
  for (const auto& [key, value] : run.config.chosen_settings()) page.settings.emplace_back(key, value);
  if (task.examples && flags.examples > 0) {
    page.examples = task.examples(run, {.examples = flags.examples, .explained = flags.explained});
  }
  replace_file(file, plot::html_report(page));
  std::cout << name.string() << "\n";
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<ReportFlags>();
  auto* command = app.add_subcommand("report", "Write a page about a run: scores, curves, examples, attention");
  add_arguments(*command, flags->positionals, "RUN [runtime.KEY=VALUE ...] [data.KEY=PATH ...]",
                "RUN\tThe directory of a run: runs/NAME\n"
                "runtime.KEY=VALUE\tWhere it computes: runtime.threads=1, runtime.device=cuda\n"
                "data.KEY=PATH\tWhere the run's data lie now, if they have moved: data.path=FILE");
  command
      ->add_option("-o,--output", flags->output, "The page to write, a name that ends in .html (default report.html)")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it exists");
  command->add_option("--examples", flags->examples, "Examples of the held-out data on it; 0: none")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  command
      ->add_option("--explained", flags->explained,
                   "So many of them with what the model looked at: worst, best, some between")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  add_checkpoint(*command, flags->checkpoint);
  command->add_flag("--allow-changed-data", flags->allow_changed_data,
                    "Evaluate the test part though its data have changed since the training");
  command->footer(
      "Example:\n  fovea report runs/quickstart -o report.html\n"
      "The page is one file that needs no network and no other file. It has the scores of `fovea evaluate`, the curves "
      "of "
      "the training, the best and the worst examples, and an explorer of attention.");
  commands.emplace_back(command, [flags, &registry] { return report(*flags, registry); });
}

}  // namespace fovea::cli
