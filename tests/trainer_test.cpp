#include "fovea/train/trainer.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/train/checkpoint.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

// metrics.jsonl without what depends on the clock.
std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_bytes(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("seconds");
    lines.back().erase("tokens_per_second");
  }
  return lines;
}

}  // namespace

TEST_CASE("C33: a run stopped anywhere and resumed is the one that never stopped, byte for byte") {
  TinyExperiment experiment(150, {"train.accumulate=2", "train.log_every=2", "train.checkpoint_every=3",
                                  "schedule.name=inverse_sqrt", "schedule.warmup_steps=5"});
  REQUIRE(experiment.train("whole") == StopReason::kEpochs);
  const int64_t steps = experiment.state.step;
  REQUIRE(steps == 3 * 4);  // 110 training pairs, 7 batches, groups of 2
  const auto weights = experiment.final_weights("whole");
  const auto metrics = metrics_of(experiment.dir / "whole");
  for (const int64_t stop : {1, 3, 4, 5, 11}) {
    INFO("stopped after step " << stop);
    const std::string name = "stopped" + std::to_string(stop);
    CHECK(experiment.train(name, {"train.max_steps=" + std::to_string(stop)}) == StopReason::kSteps);
    CHECK(experiment.state.step == stop);
    CHECK(experiment.train(name, {}, true) == StopReason::kEpochs);
    CHECK(experiment.final_weights(name) == weights);
    CHECK(metrics_of(experiment.dir / name) == metrics);
    CHECK(read_bytes(CheckpointStore(experiment.dir / name).open("last") / "optimizer.safetensors") ==
          read_bytes(CheckpointStore(experiment.dir / "whole").open("last") / "optimizer.safetensors"));
  }
}

TEST_CASE("what a killed run wrote after its checkpoint is cut off and written again") {
  TinyExperiment experiment;
  experiment.train("whole");
  experiment.train("killed", {"train.max_epochs=2"});
  std::ofstream(experiment.dir / "killed" / "metrics.jsonl", std::ios::app)
      << "{\"kind\": \"train\", \"step\": 99}\n{\"ki";
  experiment.train("killed", {}, true);
  CHECK(metrics_of(experiment.dir / "killed") == metrics_of(experiment.dir / "whole"));
  CHECK(experiment.final_weights("killed") == experiment.final_weights("whole"));
}

TEST_CASE("C34: weights alone do not make the same run") {
  TinyExperiment experiment;
  experiment.train("whole");
  experiment.train("stopped", {"train.max_epochs=1"});
  // The optimizer's averages are lost: a different continuation, though it starts from the same weights.
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  const auto checkpoint = CheckpointStore(experiment.dir / "stopped").open("last");
  load_weights(checkpoint, module->network());
  const auto run = RunDirectory::create(experiment.dir / "weights", "", RunDirectory::Existing::kRefuse);
  Progress progress({.quiet = true});
  Trainer trainer(config, *module, *data, run, at::kCPU, progress);
  trainer.fit();
  CHECK(experiment.final_weights("weights") != experiment.final_weights("whole"));
}

TEST_CASE("one seed, one run; another seed, another") {
  TinyExperiment experiment;
  experiment.train("a");
  experiment.train("b");
  experiment.train("c", {"seed=4"});
  CHECK(experiment.final_weights("a") == experiment.final_weights("b"));
  CHECK(experiment.final_weights("a") != experiment.final_weights("c"));
}

TEST_CASE("the layout of the tokens changes no loss") {
  TinyExperiment experiment;
  experiment.train("packed");
  experiment.train("padded", {"model.layout=padded"});
  const auto a = metrics_of(experiment.dir / "packed"), b = metrics_of(experiment.dir / "padded");
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    CHECK(a[i]["loss"].get<double>() == Approx(b[i]["loss"].get<double>()).epsilon(1e-3));
}

TEST_CASE("C10: micro-batches of different sizes add up to one batch") {
  TinyExperiment experiment(
      60, {"model.dropout=0", "optimizer.name=sgd", "optimizer.learning_rate=0.1", "train.clip_norm=0",
           "train.max_epochs=1", "data.validation.size=0", "data.test.size=0", "data.bucket=false"});
  experiment.train("one", {"data.batch_size=60"});
  CHECK(experiment.state.step == 1);
  experiment.train("many", {"data.batch_size=7", "train.accumulate=9"});
  CHECK(experiment.state.step == 1);
  const auto load = [&](const std::string& name) {
    const auto config = experiment.config();
    const auto data = config.make_data();
    auto module = config.make_model(data->spec());
    load_weights(CheckpointStore(experiment.dir / name).open("last"), module->network());
    return module;
  };
  const auto one = load("one"), many = load("many");
  const auto a = named_parameters(one->network()), b = named_parameters(many->network());
  for (size_t i = 0; i < a.size(); ++i) CHECK(at::allclose(a[i].second, b[i].second, 1e-4, 1e-6));
}

TEST_CASE("a Transformer learns to turn sentences round") {
  TinyExperiment experiment(1500,
                            {"model.num_hiddens=48", "model.ffn_num_hiddens=96", "model.num_heads=4", "model.dropout=0",
                             "optimizer.learning_rate=0.003", "train.max_epochs=20", "train.log_every=1000"});
  experiment.train("run");
  REQUIRE(experiment.state.best.has_value());
  // Guessing the next word of a target without looking at its source costs about 1.9.
  CHECK(*experiment.state.best < 0.7);
}

TEST_CASE("a loss that is not finite stops the run, names the step and keeps the last checkpoint") {
  TinyExperiment experiment;
  experiment.train("run", {"train.max_epochs=1"});
  const auto weights = experiment.final_weights("run");
  CHECK_THROWS_WITH(experiment.train("run", {"optimizer.learning_rate=1e30", "train.clip_norm=0"}, true),
                    ContainsSubstring("not finite any more") && ContainsSubstring("step ") &&
                        ContainsSubstring("last good checkpoint is step-7"));
  CHECK(experiment.final_weights("run") == weights);
}

TEST_CASE("patience, best and the number of kept checkpoints") {
  TinyExperiment experiment(
      150, {"optimizer.learning_rate=1e-12", "train.max_epochs=20", "train.patience=3", "train.keep_last=2"});
  CHECK(experiment.train("run") == StopReason::kPatience);
  const CheckpointStore store(experiment.dir / "run");
  CHECK(store.step_of("best") == experiment.state.best_step);
  CHECK(store.step_of("last") == experiment.state.step);
  CHECK(store.list().size() <= 3);
}

TEST_CASE("C18: no validation, one validation pair, a corpus smaller than a batch") {
  TinyExperiment experiment(3, {"data.batch_size=64", "data.test.size=0"});
  CHECK(experiment.train("none", {"data.validation.size=0"}) == StopReason::kEpochs);
  CHECK(experiment.state.step == 3);
  CHECK(experiment.state.best.has_value());
  CHECK(experiment.train("one", {"data.validation.size=1"}) == StopReason::kEpochs);
  CHECK_THROWS_WITH(experiment.train("all", {"data.validation.size=3"}), ContainsSubstring("3"));
}

TEST_CASE("C11: evaluation is without dropout and gives training mode back") {
  TinyExperiment experiment;
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  module->network().train();
  const auto first = evaluate_module(*module, *data, Part::kValidation, at::kCPU);
  CHECK(module->network().is_training());
  CHECK(evaluate_module(*module, *data, Part::kValidation, at::kCPU).loss == first.loss);
  module->network().eval();
  evaluate_module(*module, *data, Part::kValidation, at::kCPU);
  CHECK_FALSE(module->network().is_training());
  CHECK(first.count > 20);
}

TEST_CASE("max_minutes stops, and the state is saved") {
  TinyExperiment experiment(150, {"train.max_epochs=100000", "train.max_minutes=0.02"});
  CHECK(experiment.train("run") == StopReason::kMinutes);
  CHECK(CheckpointStore(experiment.dir / "run").step_of("last") == experiment.state.step);
}
