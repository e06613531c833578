#include "fovea/train/run_summary.h"

#include <atomic>
#include <fstream>
#include <thread>

#include "fovea/config/dump.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/run_lock.h"
#include "tests/tiny_experiment.h"

using namespace fovea;
using train::RunState;
using train::summarize_run;

namespace {

// A run of three epochs of a regression, with its configuration.
struct SummarizedRun {
  TinyExperiment experiment{tiny_regression(), 60, {"train.max_epochs=3"}};
  std::filesystem::path path = experiment.dir / "run";

  explicit SummarizedRun(const std::vector<std::string>& more = {}) {
    experiment.train("run", more);
    write_bytes(path / "config.yaml", config::dump(experiment.config(more)));
  }
};

}  // namespace

TEST_CASE("run summary: a run that is done") {
  const SummarizedRun run;
  const auto summary = summarize_run(run.path);
  CHECK(summary.state == RunState::kDone);
  CHECK(summary.problem.empty());
  CHECK(summary.model == run.experiment.config().model.name);
  CHECK(summary.data == run.experiment.config().data.name);
  CHECK((summary.epochs == 3 && summary.max_epochs == 3));
  CHECK(summary.watched == "loss");
  CHECK(summary.best == run.experiment.state.best);
  CHECK(summary.best_step == run.experiment.state.best_step);
  CHECK(summary.minutes > 0);
  CHECK(summary.setting("train.max_epochs") == "3");
  CHECK(summary.setting("train.max_steps") == "null");
  CHECK_FALSE(summary.setting("train"));
  CHECK_FALSE(summary.setting("train.max_epoch"));
}

TEST_CASE("run summary: done is what the settings say") {
  const SummarizedRun by_steps({"train.max_steps=1"});
  CHECK(summarize_run(by_steps.path).state == RunState::kDone);
  write_bytes(by_steps.path / "config.yaml", config::dump(by_steps.experiment.config()));
  CHECK(summarize_run(by_steps.path).state == RunState::kStopped);
  std::filesystem::remove_all(by_steps.path / "checkpoints");
  const auto fresh = summarize_run(by_steps.path);
  CHECK(fresh.state == RunState::kStopped);
  CHECK((fresh.epochs == 0 && !fresh.best));
}

TEST_CASE("run summary: a process that has the lock is training") {
  const SummarizedRun run;
  CHECK_FALSE(train::RunLock::is_held(run.path));
  {
    const train::RunLock lock(run.path);
    CHECK(train::RunLock::is_held(run.path));
    CHECK(summarize_run(run.path).state == RunState::kTraining);
  }
  write_bytes(run.path / train::RunLock::kFile, "123");  // what a killed process leaves
  CHECK_FALSE(train::RunLock::is_held(run.path));
  CHECK(summarize_run(run.path).state == RunState::kDone);
}

TEST_CASE("run summary: whoever looks at a lock does not keep others from it") {
  const TempDir dir;
  write_bytes(dir / train::RunLock::kFile, "");
  std::atomic<bool> stop = false;
  std::thread looking([&] {
    while (!stop) train::RunLock::is_held(dir.path());
  });
  for (int i = 0; i < 50; ++i) CHECK_NOTHROW(train::RunLock(dir.path()));
  stop = true;
  looking.join();
}

TEST_CASE("run summary: what is broken says why") {
  const SummarizedRun run;
  const auto last = run.path / "checkpoints" / std::filesystem::read_symlink(run.path / "checkpoints/last");
  const auto broken = [&](const std::string& said) {
    const auto summary = summarize_run(run.path);
    CHECK(summary.state == RunState::kBroken);
    CHECK_THAT(summary.problem, ContainsSubstring(said));
  };
  const std::string weights = read_bytes(last / "model.safetensors");
  write_bytes(last / "model.safetensors", weights.substr(9));
  broken("model.safetensors: expected");
  write_bytes(last / "model.safetensors", weights);
  CHECK(summarize_run(run.path).state == RunState::kDone);

  const std::string state = read_bytes(last / "state.json");
  write_bytes(last / "state.json", std::string(state.size(), '{'));
  broken("state.json");
  write_bytes(last / "state.json", state);

  const std::string config = read_bytes(run.path / "config.yaml");
  write_bytes(run.path / "config.yaml", "model: [");
  broken("config.yaml");
  write_bytes(run.path / "config.yaml", "model: {name: mlp}\n");
  broken("data.name is missing");
  std::filesystem::remove(run.path / "config.yaml");
  broken("config.yaml");
  write_bytes(run.path / "config.yaml", config);
  write_bytes(run.path / "metrics.jsonl", "{{{{\n");
  CHECK(summarize_run(run.path).state == RunState::kDone);  // a resumed run goes on all the same
}

TEST_CASE("run summary: the validation at the end counts") {
  const SummarizedRun run;
  // As Trainer::validate_at_end does it: the mark and the line, after the checkpoint.
  const auto last = train::CheckpointStore(run.path).step_of("last").value();
  const auto last_dir = run.path / "checkpoints/last";
  auto state = train::load_state(last_dir / train::kStateFile);
  train::CheckpointStore store(run.path);
  store.mark("best", last);
  std::ofstream(run.path / "metrics.jsonl", std::ios::app)
      << R"({"kind":"validation","step":)" << last << R"(,"epoch":3,"loss":0.125})"
      << "\n";
  const auto summary = summarize_run(run.path);
  CHECK(summary.best_step == last);
  CHECK(summary.best == (state.best_step == last ? state.best : std::optional(0.125)));
}

TEST_CASE("run summary: runs below a directory, and what to call them") {
  const TempDir dir;
  for (const char* run : {"b", "a", "sweep/x", "one/two/three/four", ".hidden", "exported"}) {
    std::filesystem::create_directories(dir / run);
    write_bytes(dir / run / "config.yaml", "");
  }
  std::filesystem::create_directories(dir / "gone" / "checkpoints");
  write_bytes(dir / "exported" / "model.safetensors", "");
  write_bytes(dir / "file", "");
  std::filesystem::create_directories(dir / "a" / "checkpoints" / "step-1");
  write_bytes(dir / "a" / "checkpoints" / "step-1" / "config.yaml", "");
  CHECK(train::find_runs(dir.path()) ==
        std::vector<std::filesystem::path>{dir / "a", dir / "b", dir / "gone", dir / "sweep/x"});
  CHECK(train::find_runs(dir / "b") == std::vector<std::filesystem::path>{dir / "b"});
  CHECK_THAT(error_of([&] { train::find_runs(dir / "none"); }), ContainsSubstring("expected a directory of runs"));
  CHECK(train::short_names({"runs/a", "old/b/", "old/a"}) == std::vector<std::string>{"runs/a", "b", "old/a"});
}
