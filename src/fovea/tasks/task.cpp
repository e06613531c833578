#include "fovea/tasks/task.h"

#include "fovea/core/error.h"

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

train::Judge Registry::judge_of(const data::DataSpec& spec) const {
  const Task& task = task_of(spec);
  return task.judge ? task.judge() : train::Judge{};
}

EvaluationData load_part(const train::LoadedRun& run, const EvaluateRequest& request) {
  auto data = run.config.make_data(run.assets);
  data::Part part = request.part.value_or(data::Part::kTest);
  std::string note;
  if (!request.part && data->size(part) == 0 && data->size(data::Part::kValidation) > 0) {
    part = data::Part::kValidation;
    note = " (there is no test part)";
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
