#include "fovea/tasks/task.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/train/trainer.h"

namespace fovea::tasks {

std::vector<Report::Fact> EvaluationData::facts(int64_t count, const std::string& noun) const {
  const std::string counted = count == 1 && noun.ends_with('s') ? noun.substr(0, noun.size() - 1) : noun;
  return {{.key = "data", .value = name, .text = fmt::format("{}{}, {} {}", name, note, count, counted)},
          {.key = noun, .value = count, .in_table = false}};
}

Registry::Registry(std::vector<train::ModelEntry> all_models, std::vector<Task> all_tasks)
    : tasks(std::move(all_tasks)) {
  models = std::move(all_models);
  for (const auto& task : tasks) datasets.insert(datasets.end(), task.datasets.begin(), task.datasets.end());
}

const Task& Registry::task_of(const data::DataSpec& spec) const {
  for (const auto& task : tasks) {
    if (task.name == spec.task()) return task;
  }
  fail("there is no task '{}'", spec.task());
}

const Task& Registry::task_with_data(const std::string& name) const {
  for (const auto& task : tasks) {
    for (const auto& entry : task.datasets) {
      if (entry.named.name == name) return task;
    }
  }
  fail("there is no task with the data '{}'", name);
}

void Registry::check(const train::ExperimentConfig& config) const {
  const Task& task = task_with_data(config.data.name);
  const train::Judge judge = task.judge ? task.judge() : train::Judge{};
  train::check_watch(config, config::entry_named(models, config.model.name).measured(), judge);
}

train::Judge Registry::judge_of(const data::DataSpec& spec) const {
  const Task& task = task_of(spec);
  return task.judge ? task.judge() : train::Judge{};
}

bool is_unchanged(const train::LoadedRun& run, const data::DataModule& data, data::Part part) {
  const train::TrainState& state = run.state;
  if (!state.data_parts.empty()) return state.data_parts.at(static_cast<size_t>(part)) == data.part_fingerprint(part);
  // Weights that were imported were trained elsewhere. Older checkpoints know training and validation only.
  return state.step == 0 || state.data_fingerprint == data.fingerprint();
}

namespace {

// The run's data with this part; perhaps nothing but the part is read.
std::unique_ptr<data::DataModule> read_part(const train::LoadedRun& run, data::Part part) {
  const std::vector<std::string> files = run.config.data_files();
  try {
    return run.state.data_parts.empty() ? run.config.make_data(run.assets)
                                        : run.config.make_data_part(run.assets, part);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kUsage || files.empty()) throw;
    fail_usage("{}\nthe run was trained with {}; if that lies elsewhere now, give the new path in the same way",
               e.what(), fmt::join(files, " "));
  }
}

void check_unchanged(const train::LoadedRun& run, const data::DataModule& data, data::Part part, bool allow_changed) {
  if (is_unchanged(run, data, part)) return;
  const std::vector<std::string> files = run.config.data_files();
  const std::string what =
      fmt::format("the {} part is not what it was when the run was trained: {} changed", data::part_name(part),
                  files.empty() ? "the data have" : fmt::format("{}", fmt::join(files, " ")) + " has");
  if (!allow_changed) {
    fail_usage(
        "{}; the score would not compare with the old one, and examples that were trained on may be in this part. Say "
        "where the old data lie now (data.KEY=FILE), or evaluate all the same (--allow-changed-data)",
        what);
  }
  spdlog::warn("{}; examples that were trained on may be in it", what);
}

}  // namespace

EvaluationData load_part(const train::LoadedRun& run, const EvaluateRequest& request) {
  data::Part part = request.part.value_or(data::Part::kTest);
  auto data = read_part(run, part);
  check_unchanged(run, *data, part, request.allow_changed_data);
  std::string note;
  if (!request.part && data->size(part) == 0) {
    // Mostly all parts were read together.
    std::unique_ptr<data::DataModule> other;
    if (data->size(data::Part::kValidation) == 0) other = read_part(run, data::Part::kValidation);
    const data::DataModule& with_validation = other != nullptr ? *other : *data;
    check_unchanged(run, with_validation, data::Part::kValidation, request.allow_changed_data);
    if (with_validation.size(data::Part::kValidation) > 0) {
      if (other != nullptr) data = std::move(other);
      part = data::Part::kValidation;
      note = " (there is no test part)";
    }
  }
  if (data->size(part) == 0) {
    fail_usage(
        "the run has no {} data: its configuration holds none out (data.{}); choose another --split or give a file "
        "(--input)",
        data::part_name(part), data::part_name(part));
  }
  return {std::move(data), part, data::part_name(part), note};
}

EvaluationData of_files(const EvaluateRequest& request, std::unique_ptr<data::DataModule> data) {
  std::string names;
  for (const auto& file : request.files) names += (names.empty() ? "" : " and ") + file.string();
  return {std::move(data), data::Part::kTest, names, {}};
}

}  // namespace fovea::tasks
