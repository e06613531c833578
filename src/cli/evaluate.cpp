#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/plot/band_picture.h"
#include "run_argument.h"
#include "section_flags.h"

namespace fovea::cli {
namespace {

struct EvaluateFlags {
  std::vector<std::string> positionals, inputs;
  std::string split, checkpoint, output;
  bool json = false, overwrite = false, allow_changed_data = false;
  SectionFlags sections;
};

std::optional<data::Part> part_of(const std::string& split) {
  if (split.empty()) return std::nullopt;
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    if (split == data::part_name(part)) return part;
  }
  fail_usage("--split: expected train, validation or test, got '{}'", split);
}

// Where the picture goes; checked before the work.
std::filesystem::path picture_file(const EvaluateFlags& flags, const config::Section& options,
                                   const std::filesystem::path& run) {
  const auto settings = config::path_settings(options);
  const bool is_written = std::any_of(settings.begin(), settings.end(), [](const auto& s) { return !s.paths.empty(); });
  if (flags.output.empty()) {
    if (flags.overwrite && !is_written) {
      std::string names = "--output";
      for (const auto& setting : settings) names += " or " + flag_name(setting.key);
      fail_usage("--overwrite needs {}", names);
    }
    return {};
  }
  if (!flags.sections.is_given("by")) fail_usage("--output needs --by: scores in bands are what is drawn");
  return plot::check_picture(flags.output, flags.overwrite, {run});
}

int evaluate(const EvaluateFlags& flags, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(flags.positionals);
  const std::string path = only_run(arguments, "fovea evaluate runs/quickstart", registry);
  const std::optional<data::Part> part = part_of(flags.split);
  const train::LoadedRun run = train::load_run(registry, path, flags.checkpoint, arguments.overrides);
  const tasks::Task& task = registry.task_of(run.assets->spec());
  const auto options = task.evaluate_options();
  flags.sections.apply(*options, path, task.name);
  const auto picture = picture_file(flags, *options, path);
  Progress progress;
  const tasks::EvaluateRequest request{.part = part,
                                       .files = {flags.inputs.begin(), flags.inputs.end()},
                                       .allow_changed_data = flags.allow_changed_data,
                                       .overwrite = flags.overwrite,
                                       .options = options.get(),
                                       .progress = progress.is_terminal() ? &progress : nullptr};
  tasks::Report report = task.evaluate(run, request);
  report.facts.insert(report.facts.begin(), {{.key = "run", .value = path, .in_table = false},
                                             {.key = "checkpoint", .value = run.checkpoint.filename().string()}});
  for (const auto& warning : report.warnings) spdlog::warn("{}", warning);
  std::cout << (flags.json ? report.json() + "\n" : report.text(output_width())) << std::flush;
  if (!picture.empty()) plot::draw(plot::band_picture(report), picture, plot::format_of(flags.output));
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<EvaluateFlags>();
  auto* command = app.add_subcommand("evaluate", "Measure a trained model on data that was held out");
  add_arguments(*command, flags->positionals, "RUN [runtime.KEY=VALUE ...] [data.KEY=PATH ...]",
                "RUN\tThe directory of a run: runs/NAME\n"
                "runtime.KEY=VALUE\tWhere it computes: runtime.threads=1, runtime.device=cuda\n"
                "data.KEY=PATH\tWhere the run's data lie now, if they have moved: data.path=FILE");
  auto* split = command
                    ->add_option("--split", flags->split,
                                 "train, validation or test (default test, or validation where nothing is held out to "
                                 "test)")
                    ->type_name("PART");
  command
      ->add_option("--input", flags->inputs,
                   "A file to evaluate on instead of a part, or two parallel ones: sources, then references")
      ->type_name("FILE")
      ->expected(1, 2)
      ->transform(as_path())
      ->excludes(split);
  add_checkpoint(*command, flags->checkpoint);
  for (const auto& task : registry.tasks) {
    flags->sections.add(*command, *task.evaluate_options(), task.name, /*several=*/true);
  }
  command
      ->add_option("-o,--output", flags->output,
                   "A picture of the scores that --by asks for: a name that ends in .svg, .png or .pdf. gnuplot draws "
                   "it")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_flag("--overwrite", flags->overwrite, "Replace files that exist");
  command->add_flag("--allow-changed-data", flags->allow_changed_data,
                    "Evaluate a part though its data have changed since the training");
  command->add_flag("--json", flags->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  fovea evaluate runs/quickstart --beam 4 --samples 5\n"
      "  fovea evaluate runs/quickstart --input mine.tsv --json\n"
      "  fovea evaluate runs/quickstart --by length -o length.svg");
  commands.emplace_back(command, [flags, &registry] { return evaluate(*flags, registry); });
}

}  // namespace fovea::cli
