#include <spdlog/spdlog.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/output.h"
#include "fovea/core/user_path.h"
#include "fovea/plot/attention_figure.h"
#include "fovea/plot/gnuplot.h"
#include "run_argument.h"
#include "section_flags.h"

namespace fovea::cli {
namespace {

struct AttendFlags {
  std::vector<std::string> positionals;
  std::string checkpoint;
  std::filesystem::path output;
  plot::AttentionFigureOptions figure;
  bool json = false, overwrite = false;
  SectionFlags sections;
};

bool is_json(const std::filesystem::path& path) {
  return path.extension() == ".json";
}

std::filesystem::path checked_output(const AttendFlags& flags, const std::string& run) {
  if (flags.output.empty()) return {};
  if (!is_json(flags.output)) return plot::check_picture(flags.output, flags.overwrite, {run});
  return check_output({.path = flags.output, .option = "--output", .overwrite = flags.overwrite, .sources = {run}});
}

int attend(const AttendFlags& flags, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(flags.positionals);
  if (arguments.words.size() < 2) {
    fail_usage("expected a run and an input, as in: fovea attend runs/quickstart \"go .\" -o heads.png");
  }
  const std::string path = user_path(arguments.words[0]);
  check_run(path);
  const auto output = checked_output(flags, path);
  const train::LoadedRun run = train::load_run(registry, path, flags.checkpoint, arguments.overrides);
  const tasks::Task& task = registry.task_of(run.assets->spec());
  if (!task.attend) fail_usage("{}: attention of {} runs is not shown yet", path, task.name);
  const auto options = task.attend_options();
  flags.sections.apply(*options, path, task.name);
  tasks::Report report =
      task.attend(run, {.inputs = {arguments.words.begin() + 1, arguments.words.end()}, .options = options.get()});
  report.facts.insert(report.facts.begin(), {{.key = "run", .value = path, .in_table = false},
                                             {.key = "checkpoint", .value = run.checkpoint.filename().string()}});
  for (const auto& warning : report.warnings) spdlog::warn("{}", warning);
  if (!output.empty() && is_json(output)) {
    replace_file(output, report.json() + "\n");
  } else if (!output.empty()) {
    plot::draw(plot::attention_figure(report, flags.figure), output, plot::format_of(output));
  }
  std::cout << (flags.json ? report.json() + "\n" : report.text(output_width()));
  return 0;
}

}  // namespace

void add_attend(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<AttendFlags>();
  auto* command = app.add_subcommand("attend", "Show what a trained model looks at");
  add_arguments(*command, flags->positionals, "RUN INPUT [runtime.KEY=VALUE ...]",
                "RUN\tThe directory of a run: runs/NAME\n"
                "INPUT\tWhat the task predicts from: a sentence, an image, rows of numbers\n"
                "runtime.KEY=VALUE\tWhere it computes: runtime.threads=1, runtime.device=cuda");
  command
      ->add_option("-o,--output", flags->output,
                   "Draws heatmaps of all weights: .png, .svg or .pdf; or .json, the weights as numbers")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_flag("--overwrite", flags->overwrite, "Replace the file of --output if it exists");
  command
      ->add_option("--group", flags->figure.group,
                   "Draw one kind only, by the name that the table has in its column `of`: cross, encoder, decoder ...")
      ->type_name("NAME");
  command->add_option("--layer", flags->figure.layer, "Draw one layer of each kind only, from 1")
      ->check(CLI::Range(1, 100000));
  command->add_option("--head", flags->figure.head, "Draw one head of each layer only, from 1")
      ->check(CLI::Range(1, 100000));
  add_checkpoint(*command, flags->checkpoint);
  for (const auto& task : registry.tasks) {
    if (task.attend) flags->sections.add(*command, *task.attend_options(), task.name, /*several=*/true);
  }
  command->add_flag("--json", flags->json, "One JSON object with all weights");
  command->footer(
      "Examples:\n  fovea attend runs/quickstart \"go .\" -o heads.png\n"
      "  fovea attend runs/vit_fashion_mnist shoe.png -o heads.svg\n"
      "  fovea attend runs/nadaraya_watson 1.0 2.5 --json\n"
      "The table tells on how many keys a query spreads its weight, head by head: 1 is one key, the number of keys is "
      "an even look at all of them. Weights are rows of queries that sum to 1 over the keys.");
  commands.emplace_back(command, [flags, &registry] { return attend(*flags, registry); });
}

}  // namespace fovea::cli
