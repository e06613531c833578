#include "fovea/train/trainer.h"

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/run.h"
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
    lines.back().erase("images_per_second");
  }
  return lines;
}

}  // namespace

TEST_CASE("C33: a run stopped anywhere and resumed is the one that never stopped, byte for byte") {
  TinyExperiment experiment(150, {"train.accumulate=2", "train.log_every=2", "train.checkpoint_every=3",
                                  "schedule.name=inverse_sqrt", "schedule.warmup_steps=5"});
  REQUIRE(experiment.train("whole") == train::StopReason::kEpochs);
  const int64_t steps = experiment.state.step;
  REQUIRE(steps == 3 * 4);  // 110 training pairs, 7 batches, groups of 2
  const auto weights = experiment.final_weights("whole");
  const auto metrics = metrics_of(experiment.dir / "whole");
  for (const int64_t stop : {1, 3, 4, 5, 11}) {
    INFO("stopped after step " << stop);
    const std::string name = "stopped" + std::to_string(stop);
    CHECK(experiment.train(name, {"train.max_steps=" + std::to_string(stop)}) == train::StopReason::kSteps);
    CHECK(experiment.state.step == stop);
    CHECK(experiment.train(name, {}, true) == train::StopReason::kEpochs);
    CHECK(experiment.final_weights(name) == weights);
    CHECK(metrics_of(experiment.dir / name) == metrics);
    CHECK(read_bytes(train::CheckpointStore(experiment.dir / name).open("last") / "optimizer.safetensors") ==
          read_bytes(train::CheckpointStore(experiment.dir / "whole").open("last") / "optimizer.safetensors"));
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
  const auto checkpoint = train::CheckpointStore(experiment.dir / "stopped").open("last");
  train::load_weights(checkpoint, module->network());
  const auto run = train::RunDirectory::create(experiment.dir / "weights", "", train::RunDirectory::Existing::kRefuse);
  Progress progress({.quiet = true});
  train::Trainer trainer(config, *module, *data, run, at::kCPU, progress);
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
    train::load_weights(train::CheckpointStore(experiment.dir / name).open("last"), module->network());
    return module;
  };
  const auto one = load("one"), many = load("many");
  const auto a = train::named_parameters(one->network()), b = train::named_parameters(many->network());
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

TEST_CASE("C54: a run that patience ended is validated at its end, says what goes on, and goes on") {
  TinyExperiment experiment(150, {"optimizer.learning_rate=1e-12", "train.max_epochs=20", "train.patience=2"});
  REQUIRE(experiment.train("run") == train::StopReason::kPatience);
  const int64_t stopped = experiment.state.step;
  CHECK(experiment.state.validated_step == stopped);
  CHECK(experiment.train("run", {}, true) == train::StopReason::kPatience);
  CHECK(experiment.state.step == stopped);
  CHECK(experiment.train("run", {"train.patience=4"}, true) == train::StopReason::kPatience);
  CHECK(experiment.state.step == 2 * (stopped - experiment.state.best_step) + experiment.state.best_step);
}

TEST_CASE("C54: weights whose validation is not finite are never the best nor the last good ones") {
  // In one step the weights become so large that the loss overflows, though they are finite themselves.
  TinyExperiment experiment(150, {"optimizer.name=sgd", "train.clip_norm=0", "train.checkpoint_every=1",
                                  "train.validate_every_steps=1", "train.max_steps=2", "train.keep_last=5"});
  experiment.train("run");
  CHECK(experiment.state.good_step == 2);
  const auto good = experiment.state;
  CHECK_THROWS_WITH(experiment.train("run", {"optimizer.learning_rate=1e20", "train.max_steps=40"}, true),
                    ContainsSubstring("not finite any more") &&
                        ContainsSubstring("the last good checkpoint is step-" + std::to_string(good.step)));
  const train::CheckpointStore store(experiment.dir / "run");
  CHECK(store.step_of("best") <= good.step);
}

TEST_CASE("patience, best and the number of kept checkpoints") {
  TinyExperiment experiment(
      150, {"optimizer.learning_rate=1e-12", "train.max_epochs=20", "train.patience=3", "train.keep_last=2"});
  CHECK(experiment.train("run") == train::StopReason::kPatience);
  const train::CheckpointStore store(experiment.dir / "run");
  CHECK(store.step_of("best") == experiment.state.best_step);
  CHECK(store.step_of("last") == experiment.state.step);
  CHECK(store.list().size() <= 3);
}

TEST_CASE("C18: no validation, one validation pair, a corpus smaller than a batch") {
  TinyExperiment experiment(3, {"data.batch_size=64", "data.test.size=0"});
  CHECK(experiment.train("none", {"data.validation.size=0"}) == train::StopReason::kEpochs);
  CHECK(experiment.state.step == 3);
  CHECK(experiment.state.best.has_value());
  CHECK(experiment.train("one", {"data.validation.size=1"}) == train::StopReason::kEpochs);
  CHECK_THROWS_WITH(experiment.train("all", {"data.validation.size=3"}), ContainsSubstring("3"));
}

TEST_CASE("C11: evaluation is without dropout and gives training mode back") {
  TinyExperiment experiment;
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  module->network().train();
  const auto first = train::evaluate_module(*module, *data, data::Part::kValidation, at::kCPU);
  CHECK(module->network().is_training());
  CHECK(train::evaluate_module(*module, *data, data::Part::kValidation, at::kCPU).value("loss") == first.value("loss"));
  module->network().eval();
  train::evaluate_module(*module, *data, data::Part::kValidation, at::kCPU);
  CHECK_FALSE(module->network().is_training());
  CHECK(first.count > 20);
}

TEST_CASE("max_minutes stops, and the state is saved") {
  TinyExperiment experiment(150, {"train.max_epochs=100000", "train.max_minutes=0.02"});
  CHECK(experiment.train("run") == train::StopReason::kMinutes);
  CHECK(train::CheckpointStore(experiment.dir / "run").step_of("last") == experiment.state.step);
}

TEST_CASE("C33: so is a run of images, augmented, mixed, with averaged weights") {
  TinyExperiment experiment(
      tiny_image_task(), 90,
      {"train.ema_decay=0.9", "train.watch=accuracy", "train.checkpoint_every=1", "data.augment.crop_padding=1",
       "data.augment.flip=true", "data.augment.erasing=0.3", "data.augment.mixup=0.4", "optimizer.name=adamw",
       "model.label_smoothing=0.1", "train.accumulate=2"});
  REQUIRE(experiment.train("whole") == train::StopReason::kEpochs);
  REQUIRE(experiment.state.step == 3 * 3);  // 70 training images, 5 batches, groups of 2
  const auto metrics = metrics_of(experiment.dir / "whole");
  const auto files_of = [&](const std::string& name) {
    const auto checkpoint = train::CheckpointStore(experiment.dir / name).open("last");
    std::vector<std::string> files;
    for (const char* file : {train::kModelFile, train::kRawFile, train::kOptimizerFile})
      files.push_back(read_bytes(checkpoint / file));
    return files;
  };
  const auto files = files_of("whole");
  CHECK(files[0] != files[1]);
  for (const int64_t stop : {1, 3, 8}) {
    INFO("stopped after step " << stop);
    const std::string name = "stopped" + std::to_string(stop);
    CHECK(experiment.train(name, {"train.max_steps=" + std::to_string(stop)}) == train::StopReason::kSteps);
    CHECK(experiment.train(name, {}, true) == train::StopReason::kEpochs);
    CHECK(files_of(name) == files);
    CHECK(metrics_of(experiment.dir / name) == metrics);
  }
}

TEST_CASE("averaged weights are what is validated and what is used, and training does not feel them") {
  TinyExperiment experiment(tiny_image_task(), 90);
  experiment.train("plain");
  experiment.train("averaged", {"train.ema_decay=0.95"});
  const auto averaged = train::CheckpointStore(experiment.dir / "averaged").open("last");
  CHECK(experiment.final_weights("plain") == read_bytes(averaged / train::kRawFile));
  CHECK(std::string(train::weights_to_use(averaged)) == train::kModelFile);
  CHECK_FALSE(std::filesystem::exists(train::CheckpointStore(experiment.dir / "plain").open("last") / train::kRawFile));

  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto loss_with = [&](const char* file) {
    const auto module = config.make_model(data->spec());
    train::load_weights(train::CheckpointStore(experiment.dir / "averaged").open("last"), module->network(), file);
    return train::evaluate_module(*module, *data, data::Part::kValidation, at::kCPU).value("loss");
  };
  const auto last_validation = [&](const std::string& name) {
    return metrics_of(experiment.dir / name).back().at("loss").get<double>();
  };
  CHECK(last_validation("averaged") == loss_with(train::kModelFile));
  CHECK(last_validation("plain") == loss_with(train::kRawFile));
  CHECK(loss_with(train::kRawFile) != loss_with(train::kModelFile));

  const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "averaged", "last");
  CHECK(train::evaluate_module(*run.module, *data, data::Part::kValidation, at::kCPU).value("loss") ==
        loss_with(train::kModelFile));
}

TEST_CASE("a checkpoint that has the averages in a file of their own, as 0.1 wrote it, is used and goes on") {
  TinyExperiment experiment(tiny_image_task(), 90, {"train.ema_decay=0.9"});
  experiment.train("whole");
  experiment.train("old", {"train.max_epochs=2"});
  train::CheckpointStore store(experiment.dir / "old");
  const auto last = store.open("last");
  const std::string averages = read_bytes(last / train::kModelFile), raw = read_bytes(last / train::kRawFile);
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(last)) {
    files[entry.path().filename().string()] = read_bytes(entry.path());
  }
  files.erase("manifest.json");
  files.erase(train::kRawFile);
  files[train::kModelFile] = raw;
  files[train::kAverageFileOf01] = averages;
  store.write(experiment.state.step, [&](const std::filesystem::path& dir) {
    for (const auto& [name, bytes] : files) write_bytes(dir / name, bytes);
  });
  const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "old", "last");
  auto used = train::named_parameters(run.module->network());
  const auto saved = train::load_safetensors(store.open("last") / train::kAverageFileOf01);
  for (const auto& [name, tensor] : used) CHECK(at::equal(tensor, saved.tensors.at(name)));
  experiment.train("old", {}, true);
  CHECK(experiment.final_weights("old") == experiment.final_weights("whole"));
}

TEST_CASE("validation of a classifier has its accuracy, that of a translator its perplexity") {
  TinyExperiment images(tiny_image_task(), 90), sentences;
  images.train("run", {"train.max_epochs=1"});
  sentences.train("run", {"train.max_epochs=1"});
  const auto a = metrics_of(images.dir / "run").back(), b = metrics_of(sentences.dir / "run").back();
  CHECK(a.at("kind") == "validation");
  CHECK(a.at("accuracy").get<double>() >= 0);
  CHECK_FALSE(a.contains("perplexity"));
  CHECK(b.at("perplexity").get<double>() == Approx(std::exp(b.at("loss").get<double>())));
  CHECK_FALSE(b.contains("accuracy"));
}

TEST_CASE("the best checkpoint may be that of the highest accuracy") {
  TinyExperiment experiment(tiny_image_task(), 250,
                            {"train.watch=accuracy", "train.max_epochs=8", "train.keep_last=8"});
  experiment.train("run", {"optimizer.learning_rate=0.003"});
  double best = -1;
  int64_t step = 0;
  for (const auto& line : metrics_of(experiment.dir / "run")) {
    if (line.at("kind") != "validation" || line.at("accuracy").get<double>() <= best) continue;
    best = line.at("accuracy").get<double>();
    step = line.at("step").get<int64_t>();
  }
  CHECK(experiment.state.best == best);
  CHECK(experiment.state.best_step == step);
  CHECK(train::CheckpointStore(experiment.dir / "run").step_of("best") == step);
  CHECK(best > 0.8);  // it learns; guessing gives a quarter
}

TEST_CASE("the accuracy is not watched where there is none") {
  TinyExperiment sentences;
  CHECK_THROWS_WITH(sentences.train("run", {"train.watch=accuracy"}),
                    ContainsSubstring("train.watch") && ContainsSubstring("transformer"));
  TinyExperiment images(tiny_image_task(), 60);
  CHECK_THROWS_WITH(images.train("run", {"train.watch=accuracy", "data.validation.size=0"}),
                    ContainsSubstring("nothing to validate on"));
  CHECK(images.train("fine", {"data.validation.size=0"}) == train::StopReason::kEpochs);
}

TEST_CASE("C36: a checkpoint of another model is refused, and one without its raw weights") {
  TinyExperiment images(tiny_image_task(), 60, {"train.max_epochs=1"});
  images.train("run");
  const auto checkpoint = train::CheckpointStore(images.dir / "run").open("last");
  TinyExperiment sentences;
  const auto config = sentences.config();
  const auto translator = config.make_model(config.make_data()->spec());
  CHECK_THROWS_WITH(train::load_weights(checkpoint, translator->network()),
                    ContainsSubstring("encoder.embedding.weight: missing") &&
                        ContainsSubstring("cls_token: saved [1, 1, 16], not part of this model"));
  const auto wider = images.config({"model.num_hiddens=20"});
  const auto model = wider.make_model(wider.make_data()->spec());
  CHECK_THROWS_WITH(train::load_weights(checkpoint, model->network()),
                    ContainsSubstring("cls_token: saved [1, 1, 16], expected [1, 1, 20]"));
  CHECK_THROWS_WITH(train::load_weights(checkpoint, model->network(), train::kRawFile),
                    ContainsSubstring(train::kRawFile));
}

TEST_CASE("a score that is no mean is watched: BLEU, judged by the task") {
  TinyExperiment experiment(150, {"train.watch=bleu", "train.evaluate_every=2", "train.max_epochs=5"});
  experiment.train("run");
  std::vector<int64_t> epochs;
  double best = -1;
  for (const auto& line : metrics_of(experiment.dir / "run")) {
    if (line.at("kind") != "validation" || !line.contains("bleu")) continue;
    epochs.push_back(line.at("epoch").get<int64_t>());
    best = std::max(best, line.at("bleu").get<double>());
  }
  CHECK(epochs == std::vector<int64_t>{2, 4, 5});  // and at the end
  CHECK(experiment.state.best == best);
  // Judging draws nothing: training does not feel it.
  experiment.train("unjudged", {"train.watch=validation", "train.evaluate_every="});
  CHECK(experiment.final_weights("run") == experiment.final_weights("unjudged"));
  CHECK_THROWS_WITH(
      experiment.train("none", {"train.watch=blue"}),
      ContainsSubstring("'blue' is not measured; did you mean 'bleu'?") && ContainsSubstring("perplexity"));
  CHECK(experiment.train("perplexity", {"train.watch=perplexity"}) == train::StopReason::kEpochs);
}

TEST_CASE("C54: validation every so many steps, and at the end however training ended") {
  TinyExperiment experiment(150, {"train.validate_every_steps=3", "train.max_epochs=2"});
  experiment.train("run");
  const auto steps_of = [&](const std::string& name) {
    std::vector<int64_t> steps;
    for (const auto& line : metrics_of(experiment.dir / name)) {
      if (line.at("kind") == "validation") steps.push_back(line.at("step").get<int64_t>());
    }
    return steps;
  };
  CHECK(steps_of("run") == std::vector<int64_t>{3, 6, 7, 9, 12, 14});
  // Stopped in the middle of an epoch: validated, and marked if it is the best, but a resumed run is the same run.
  experiment.train("stopped", {"train.max_steps=5"});
  CHECK(steps_of("stopped") == std::vector<int64_t>{3, 5});
  CHECK(train::CheckpointStore(experiment.dir / "stopped").step_of("best") == experiment.state.best_step);
  experiment.train("stopped", {}, true);
  CHECK(steps_of("stopped") == steps_of("run"));
  CHECK(experiment.final_weights("stopped") == experiment.final_weights("run"));
  CHECK(metrics_of(experiment.dir / "stopped") == metrics_of(experiment.dir / "run"));
}

TEST_CASE("training and validation losses are on one scale; the smoothed one has its own name") {
  TinyExperiment experiment(150, {"model.label_smoothing=0.2", "train.max_epochs=1"});
  experiment.train("run");
  for (const auto& line : metrics_of(experiment.dir / "run")) {
    if (line.at("kind") == "validation") {
      CHECK_FALSE(line.contains("smoothed_loss"));
    } else {
      CHECK(line.contains("loss"));
      CHECK(line.at("smoothed_loss").get<double>() != line.at("loss").get<double>());
    }
  }
}

TEST_CASE("a cosine ends where the training ends") {
  TinyExperiment experiment(150, {"schedule.name=cosine", "train.max_epochs=2"});
  experiment.train("run");
  const auto lines = metrics_of(experiment.dir / "run");
  std::vector<double> rates;
  for (const auto& line : lines) {
    if (line.at("kind") == "train") rates.push_back(line.at("learning_rate").get<double>());
  }
  REQUIRE(rates.size() == 14);
  CHECK(rates.front() == Approx(1e-3));
  CHECK(rates[7] == Approx(0.5e-3));
  CHECK(rates.back() < 2e-5);
}
