#include <spdlog/spdlog.h>

#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/user_path.h"
#include "fovea/train/checkpoint.h"
#include "plan.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct InspectFlags {
  std::vector<std::string> positionals;
  int64_t examples = 5, listed = 10;
  bool json = false;
};

// The configuration that `fovea init` would write for the files.
train::ExperimentConfig proposed(const tasks::ProposalRequest& request, const std::vector<std::string>& overrides,
                                 const tasks::Registry& registry) {
  const Plan plan = make_plan(request, registry);
  config::Node document;
  document.kind = config::Node::Kind::kMap;
  config::apply_override(document, "model.name=" + plan.model);
  for (const auto& setting : plan.proposal.settings) {
    if (setting.key.starts_with("data.")) config::apply_override(document, setting.key + "=" + setting.value);
  }
  config::apply_override(document, "seed=1");
  for (const auto& argument : overrides) config::apply_override(document, argument);
  train::ExperimentConfig experiment(registry);
  config::read(experiment, document);
  return experiment;
}

train::ExperimentConfig experiment_of(const Arguments& arguments, const tasks::Registry& registry) {
  arguments.check_words(registry);
  if (arguments.words.empty()) fail_usage("expected data or a configuration, as in: fovea inspect corpus.tsv");
  const fs::path first = user_path(arguments.words[0]);
  const bool is_config = first.extension() == ".yaml" || first.extension() == ".yml";
  const bool is_run = fs::is_regular_file(first / train::kConfigFile);
  if (arguments.words.size() == 1 && (is_config || is_run)) {
    return is_run ? train::load_experiment(registry, first / train::kConfigFile, arguments.overrides,
                                           config::Document::kRuns)
                  : train::load_experiment(registry, first, arguments.overrides);
  }
  tasks::ProposalRequest request{.files = {}, .validation = {}, .test = {}, .relative_to = "."};
  for (const auto& word : arguments.words) request.files.push_back(data_argument(word));
  return proposed(request, arguments.overrides, registry);
}

int inspect(const InspectFlags& flags, const tasks::Registry& registry) {
  const train::ExperimentConfig experiment = experiment_of(split_arguments(flags.positionals), registry);
  const tasks::Task& task = registry.task_with_data(experiment.data.name);
  if (!task.inspect) fail_usage("data of the kind {} cannot be inspected", experiment.data.name);
  Progress progress;
  tasks::Report report = task.inspect({.entry = &experiment.data_entry(),
                                       .section = experiment.data.section.get(),
                                       .seed = static_cast<uint64_t>(experiment.seed),
                                       .examples = flags.examples,
                                       .listed = flags.listed,
                                       .progress = progress.is_terminal() ? &progress : nullptr});
  report.facts.insert(report.facts.begin(),
                      {{.key = "task", .value = task.name}, {.key = "data", .value = experiment.data.name}});
  for (const auto& warning : report.warnings) spdlog::warn("{}", warning);
  std::cout << (flags.json ? report.json() + "\n" : report.text(output_width()));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<InspectFlags>();
  auto* command = app.add_subcommand("inspect", "Look at data before a training");
  add_arguments(*command, flags->positionals, "FILE ... | CONFIG.yaml [KEY=VALUE ...]",
                "FILE\tData as `fovea init` takes them: a corpus, two parallel files, a table, a folder of images, two "
                "IDX files\n"
                "CONFIG.yaml\tA configuration, or the directory of a run: the data that it names\n"
                "KEY=VALUE\tSettings on top: data.min_freq=5, seed=2");
  command->add_option("--examples", flags->examples, "How many examples to show, drawn by the seed (default 5)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  command
      ->add_option("--list", flags->listed,
                   "How many damaged, equal or doubtful ones to list of each kind at most (default 10)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  command->add_flag("--json", flags->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  fovea inspect data/tiny_en_fr.tsv\n"
      "  fovea inspect photos --list 100\n"
      "  fovea inspect configs/transformer_tiny.yaml data.min_freq=3\n"
      "Files are looked at with the settings that `fovea init` would write for them. Nothing is written.");
  commands.emplace_back(command, [flags, &registry] { return inspect(*flags, registry); });
}

}  // namespace fovea::cli
