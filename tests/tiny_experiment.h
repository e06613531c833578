// Experiments small enough to train in a test: the tasks of tests/tasks.
#pragma once

#include <string>
#include <vector>

#include "fovea/train/assembly.h"
#include "fovea/train/run.h"
#include "fovea/train/trainer.h"
#include "models/models.h"
#include "tests/tasks/images_tiny.h"
#include "tests/tasks/regression_tiny.h"
#include "tests/tasks/translation_tiny.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

/// One tiny task for each kind of data.
inline const std::vector<TinyTask>& tiny_tasks() {
  static const std::vector<TinyTask> tasks = {tiny_translation(), tiny_image_task(), tiny_regression()};
  return tasks;
}

struct TinyExperiment {
  TempDir dir;
  std::vector<std::string> settings;

  TinyExperiment(const TinyTask& task, int64_t count, std::vector<std::string> extra = {})
      : settings(std::move(extra)) {
    task.write(dir.path(), count);
    write_bytes(dir / "tiny.yaml", task.yaml);
  }

  explicit TinyExperiment(int64_t pairs = 150, std::vector<std::string> extra = {})
      : TinyExperiment(tiny_translation(), pairs, std::move(extra)) {}

  /// The one whose data the model takes, with that model.
  TinyExperiment(const fovea::train::ModelEntry& entry, int64_t count, const std::vector<std::string>& extra = {})
      : TinyExperiment(task_for(entry), count, extra) {
    const bool learns_from_a_run = entry.named.name == "deit";
    if (learns_from_a_run) train("teacher", {"train.max_steps=1"});
    settings.push_back("model.name=" + entry.named.name);
    if (learns_from_a_run) {
      settings.push_back("model.teacher=" + (dir / "teacher").string());
      settings.emplace_back("model.patch_size=4");
    }
    // The settings of the YAML are those of another model.
    if (read_bytes(dir / "tiny.yaml").find("name: " + entry.named.name) == std::string::npos) drop_model();
  }

  fovea::train::ExperimentConfig config(const std::vector<std::string>& more = {}) const {
    auto all = settings;
    all.insert(all.end(), more.begin(), more.end());
    return fovea::train::load_experiment(fovea::models::registry(), dir / "tiny.yaml", all);
  }

  /// Trains into `name`, fresh or on from its last checkpoint.
  fovea::train::StopReason train(const std::string& name, const std::vector<std::string>& more = {},
                                 bool resume = false) {
    const fovea::train::Assembly assembly(config(more), /*fresh=*/!resume);
    using fovea::train::RunDirectory;
    const auto run = resume ? RunDirectory::open_to_write(dir / name)
                            : RunDirectory::create(dir / name, "", RunDirectory::Existing::kRefuse);
    fovea::Progress progress({.quiet = true});
    fovea::train::Trainer trainer(assembly.config, *assembly.module, *assembly.data, run, at::kCPU, progress,
                                  fovea::models::registry().judge_of(assembly.data->spec()));
    if (resume) trainer.resume(run.checkpoints().open("last"));
    const auto reason = trainer.fit();
    state = trainer.state();
    return reason;
  }

  std::string final_weights(const std::string& name) const {
    return read_bytes(fovea::train::CheckpointStore(dir / name).open("last") / "model.safetensors");
  }

  fovea::train::TrainState state;

 private:
  static const TinyTask& task_for(const fovea::train::ModelEntry& entry) {
    for (const auto& task : tiny_tasks()) {
      if (task.kind == entry.takes) return task;
    }
    throw std::logic_error("no tiny task has " + entry.takes);
  }

  void drop_model() {
    std::string yaml = read_bytes(dir / "tiny.yaml");
    const size_t begin = yaml.find("model:");
    yaml.erase(begin, yaml.find("data:") - begin);
    write_bytes(dir / "tiny.yaml", yaml);
  }
};
