#include "fovea/tasks/task.h"

#include "fovea/core/error.h"

namespace fovea::tasks {

std::string EvaluateRequest::what() const {
  if (files.empty()) return data::part_name(part);
  std::string names;
  for (const auto& file : files) names += (names.empty() ? "" : " and ") + file.string();
  return names;
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

std::unique_ptr<data::DataModule> load_part(const train::LoadedRun& run, data::Part part) {
  auto data = run.config.make_data(run.assets);
  if (data->size(part) == 0) {
    fail_usage(
        "the run has no {} data: its configuration holds none out; choose another --split or give a file "
        "(--input)",
        data::part_name(part));
  }
  return data;
}

}  // namespace fovea::tasks
