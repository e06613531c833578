#include "evaluate.h"

#include <memory>

#include "fovea/core/error.h"
#include "models/models.h"

namespace fovea::cli {
namespace {

int evaluate(EvaluateOptions options, const std::vector<const CLI::Option*>& for_translators) {
  const Arguments arguments = split_arguments(options.positionals);
  options.run = arguments.only("a run directory");
  const train::LoadedRun run = train::load_run(models::registry(), options.run, options.checkpoint, arguments.overrides);
  if (decode::Seq2Seq* model = run.module->seq2seq()) return evaluate_translator(run, *model, options);
  for (const CLI::Option* option : for_translators) {
    if (option->count() > 0) fail_usage("{}: {} is for models that translate", options.run, option->get_name());
  }
  if (classification::Classifier* model = run.module->classifier()) return evaluate_classifier(run, *model, options);
  fail_usage("{}: there is no evaluation for its model, {}", options.run, run.config.model.name);
}

}  // namespace

data::Part EvaluateOptions::part() const {
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    if (split == data::part_name(part)) return part;
  }
  fail_usage("--split: expected train, validation or test, got '{}'", split);
}

void add_evaluate(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<EvaluateOptions>();
  auto* command = app.add_subcommand(
      "evaluate", "Measure a trained model: loss, perplexity, BLEU; or loss, accuracy, scores of each class");
  add_arguments(*command, options->positionals, "RUN");
  auto* split = command->add_option("--split", options->split, "train, validation or test")->capture_default_str();
  auto* input =
      command->add_option("--input", options->input, "File of source<TAB>target lines instead of a split (translators)")
          ->excludes(split);
  command->add_option("--checkpoint", options->checkpoint, "best, last or step-N (default: best, else last)");
  auto* samples = command
                      ->add_option("--samples", options->samples,
                                   "Print so many translations beside their references (translators)")
                      ->check(CLI::NonNegativeNumber);
  std::vector<const CLI::Option*> for_translators = add_search_options(*command, options->translator, " (translators)");
  for_translators.insert(for_translators.end(), {input, samples});
  command->add_flag("--json", options->json, "One JSON object");
  commands.emplace_back(command, [options, for_translators] { return evaluate(*options, for_translators); });
}

}  // namespace fovea::cli
