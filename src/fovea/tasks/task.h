#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/progress.h"
#include "fovea/data/data_module.h"
#include "fovea/export/script_recipe.h"
#include "fovea/tasks/predictor.h"
#include "fovea/tasks/proposal.h"
#include "fovea/tasks/report.h"
#include "fovea/train/entries.h"
#include "fovea/train/evaluation.h"
#include "fovea/train/run.h"

/// A task is a kind of problem: translation, classification, regression. It owns how the problem is posed (spec, typed
/// batch, data sets), what a model must promise (a contract), how it is judged (a report), how it is used (a predictor)
/// and how it is exported (a recipe). It does not own the loop, the optimizer or the model.
namespace fovea::tasks {

/// What to evaluate a run on.
struct EvaluateRequest {
  std::optional<data::Part> part = {};            // unset: test, or validation where nothing is held out to test
  std::vector<std::filesystem::path> files = {};  // instead of a part
  bool allow_changed_data = false;                // evaluate a part though it is not what the run was trained with
  bool overwrite = false;                         // replace files that the options name
  const config::Section* options = nullptr;       // the task's evaluate_options
  Progress* progress = nullptr;
};

/// Data to be looked at before a training.
struct InspectRequest {
  const data::DataEntry* entry = nullptr;    // one of the task's data sets
  const config::Section* section = nullptr;  // its settings
  uint64_t seed = 0;                         // decides the held-out parts, as in a training
  int64_t examples = 5;                      // how many to show, drawn by the seed
  int64_t listed = 10;                       // how many damaged, equal or suspicious ones to list at most
  Progress* progress = nullptr;
};

/// The data that a run is evaluated on.
struct EvaluationData {
  std::unique_ptr<data::DataModule> data;
  data::Part part = data::Part::kTest;
  std::string name = {};  // "test", the files' names
  std::string note = {};  // what is to be said of the choice: " (there is no test part)"

  /// The facts that a report begins with: the data, and how many of `noun` they are.
  std::vector<Report::Fact> facts(int64_t count, const std::string& noun) const;
};

/// Which examples of a run's held-out data to look at.
struct ExamplesRequest {
  std::optional<data::Part> part = {};  // as EvaluateRequest has it
  int64_t examples = 500;               // at most, spread over the part
  int64_t explained = 24;  // so many of them with what the model looked at: the worst, the best, some between
};

/// Predictions, one by one.
struct Examples {
  std::string score_name;  // what a score is: "probability of the label"
  std::vector<Report::Example> examples = {};
};

/// What to show the attention for.
struct AttendRequest {
  std::vector<std::string> inputs;           // at least one, as the predictor takes them
  const config::Section* options = nullptr;  // the task's attend_options
};

struct Task {
  std::string name;     // DataSpec::task()
  std::string summary;  // one line
  std::string verb;     // the name of its command: "translate"; empty: `predict` serves it
  std::string input;    // what is predicted from, in the singular: "sentence"
  /// Whether inputs are lines of UTF-8 text, which may come from the standard input, or are given one by one.
  bool reads_lines = true;
  std::string example;  // of a command, for help and errors
  /// Inputs that an argument stands for, as a folder does for the images in it. Empty: each is one.
  std::function<std::vector<std::string>(const std::string& argument)> inputs_of = {};
  bool writes_csv = false;  // Predictor::csv_header() has one

  std::vector<data::DataEntry> datasets;

  /// Settings that `evaluate` and the verb take, declared once: flags of the commands are made of them.
  std::function<std::shared_ptr<config::Section>()> evaluate_options, predict_options;

  /// Scores that are no mean over examples, for train.watch and train.evaluate_every; may be empty.
  std::function<train::Judge()> judge;
  std::function<Report(const train::LoadedRun&, const EvaluateRequest&)> evaluate;
  /// The run must outlive the predictor.
  std::function<std::unique_ptr<Predictor>(const train::LoadedRun&, const config::Section& options)> predictor;
  /// Single examples with their predictions and scores, for `fovea report`. May be empty.
  std::function<Examples(const train::LoadedRun&, const ExamplesRequest&)> examples = {};
  /// What the model looks at: the report has its attentions. May be empty. Throws a usage Error for inputs that the
  /// task cannot show, and for a model without attention.
  std::function<Report(const train::LoadedRun&, const AttendRequest&)> attend = {};
  std::function<std::shared_ptr<config::Section>()> attend_options = {};
  /// The module and the assets must outlive the recipe.
  std::function<exports::ScriptRecipe(const train::Module&, const data::DataAssets&)> script;
  /// What to set for a user's own files (`fovea init`), or why they are not of this task's kind. May be empty.
  std::function<ProposalOrReason(const ProposalRequest&)> propose = {};
  /// What is in the data, and what is wrong with them (`fovea inspect`). What a training would refuse is reported where
  /// it can be. May be empty.
  std::function<Report(const InspectRequest&)> inspect = {};
};

/// All that a program can do: its models and its tasks. Names in a configuration are looked up in it.
struct Registry : train::Entries {
  std::vector<Task> tasks;

  Registry(std::vector<train::ModelEntry> models, std::vector<Task> all_tasks);
  /// The task that data of this kind belongs to.
  const Task& task_of(const data::DataSpec& spec) const;
  /// The task that has this data set (`data.name`).
  const Task& task_with_data(const std::string& name) const;
  /// Checks what hangs on model and task together and needs no data: train.watch. Throws a usage Error.
  void check(const train::ExperimentConfig& config) const;
  /// The task's judge, empty where it has none.
  train::Judge judge_of(const data::DataSpec& spec) const;
};

/// The run's data and the part of it that is asked for; perhaps nothing but that part is read. Throws Error where the
/// part is not what it was when the run was trained, unless the request allows that; then there is a warning. A part
/// that holds nothing is a usage Error.
EvaluationData load_part(const train::LoadedRun& run, const EvaluateRequest& request);
/// Data that a task made of the files that are asked for, as its test part.
EvaluationData of_files(const EvaluateRequest& request, std::unique_ptr<data::DataModule> data);
/// Whether a part is what it was when the run was trained, as far as the checkpoint knows.
bool is_unchanged(const train::LoadedRun& run, const data::DataModule& data, data::Part part);

/// The run's model as what a task needs, e.g. decode::Seq2Seq. Throws a usage Error where it does not promise that.
template <typename Contract>
const Contract& contract_of(const train::Module& module, const std::string& task) {
  const auto* contract = module.as<Contract>();
  if (contract == nullptr) fail_usage("the model does not do what {} needs", task);
  return *contract;
}

}  // namespace fovea::tasks
