#include "fovea/train/checkpoint.h"

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/train/run.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

// What loading the run's last checkpoint into another experiment says.
std::string complaint(TinyExperiment& experiment, const std::vector<std::string>& other) {
  const auto config = experiment.config(other);
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  try {
    train::load_weights(train::CheckpointStore(experiment.dir / "run").open("last"), module->network());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("C36: weights of another model are refused, every difference listed") {
  TinyExperiment experiment;
  experiment.train("run", {"train.max_steps=1"});
  CHECK(complaint(experiment, {}).empty());
  const auto wider = complaint(experiment, {"model.num_hiddens=32"});
  CHECK_THAT(wider, ContainsSubstring("encoder.embedding.weight: saved ["));
  CHECK_THAT(wider, ContainsSubstring(", 16], expected [") && ContainsSubstring(", 32]"));
  CHECK_THAT(complaint(experiment, {"model.num_blks=2"}),
             ContainsSubstring("encoder.blks.block1.attention.W_q.weight: missing, expected [16, 16]"));
  CHECK_THAT(complaint(experiment, {"model.positions=learned"}), ContainsSubstring("encoder.pos_encoding.P: missing"));
  CHECK_THAT(complaint(experiment, {"model.use_bias=true"}), ContainsSubstring("W_o.bias: missing"));
  experiment.train("deep", {"train.max_steps=1", "model.num_blks=2"});
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  CHECK_THROWS_WITH(
      train::load_weights(train::CheckpointStore(experiment.dir / "deep").open("last"), module->network()),
      ContainsSubstring("decoder.blks.block1.ffn.dense1.weight: saved [16, 16], not part of this model"));
}

TEST_CASE("C36: another vocabulary is refused, even of the same size") {
  TinyExperiment experiment(150, {"data.validation.size=0", "data.test.size=0"});
  experiment.train("run", {"train.max_steps=1"});
  const auto config = experiment.config();
  const auto saved = config.data_entry().load_assets(*config.data.section,
                                                     train::CheckpointStore(experiment.dir / "run").open("last"));
  CHECK_NOTHROW(config.make_data()->assets()->check_same(*saved));
  auto corpus = read_bytes(experiment.dir / "corpus.tsv");
  write_bytes(experiment.dir / "corpus.tsv", corpus + "newword 1\tnewwordx\n");
  CHECK_THROWS_WITH(config.make_data()->assets()->check_same(*saved),
                    ContainsSubstring("source vocabulary") && ContainsSubstring("has the corpus changed?"));
  for (size_t at = corpus.find("ki"); at != std::string::npos; at = corpus.find("ki", at)) corpus.replace(at, 2, "kz");
  write_bytes(experiment.dir / "corpus.tsv", corpus);
  CHECK_THROWS_WITH(config.make_data()->assets()->check_same(*saved), ContainsSubstring("was 'ki', now 'kz'"));
}

TEST_CASE("a checkpoint holds no positions table, no clock, and the same bytes each time") {
  TinyExperiment experiment;
  experiment.train("a", {"train.max_steps=2"});
  experiment.train("b", {"train.max_steps=2"});
  CHECK(experiment.final_weights("a") == experiment.final_weights("b"));
  CHECK(experiment.final_weights("a").find("pos_encoding") == std::string::npos);
}

TEST_CASE("C35: a damaged run is named when it is used") {
  TinyExperiment experiment;
  experiment.train("run", {"train.max_epochs=2"});
  const auto dir = train::CheckpointStore(experiment.dir / "run").open("last");
  const auto path = dir / "model.safetensors";
  const std::string whole = read_bytes(path);
  const auto registry = models::registry();
  const auto load = [&] { return train::load_run(registry, experiment.dir / "run", "last"); };
  write_bytes(experiment.dir / "run" / "config.yaml", read_bytes(dir / "config.yaml"));
  CHECK_NOTHROW(load());
  for (const size_t share : {0, 10, 50, 99}) {
    write_bytes(path, whole.substr(0, whole.size() * share / 100));
    CHECK_THROWS_WITH(load(), ContainsSubstring("model.safetensors"));
  }
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  write_bytes(path, flipped);
  CHECK_THROWS_WITH(load(), ContainsSubstring("model.safetensors") && ContainsSubstring("step-7"));
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(load(), ContainsSubstring("model.safetensors"));
  CHECK_THROWS_WITH(train::load_run(registry, experiment.dir / "nowhere"), ContainsSubstring("nowhere"));
}

TEST_CASE("the training state is read strictly") {
  TempDir dir;
  train::TrainState state;
  state.epoch_terms.add("loss", 0.1 + 0.2, 7);
  state.best = 1.0 / 3.0;
  train::save_state(state, dir / "state.json");
  CHECK(train::load_state(dir / "state.json").epoch_terms.mean("loss") == state.epoch_terms.mean("loss"));
  CHECK(train::load_state(dir / "state.json").best == state.best);
  const std::string text = read_bytes(dir / "state.json");
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    write_bytes(dir / "damaged.json", other);
    return train::load_state(dir / "damaged.json");
  };
  CHECK_THROWS_WITH(damaged("\"epoch\"", "\"epok\""), ContainsSubstring("'epoch' is missing"));
  CHECK_THROWS_WITH(damaged("\"epoch\": 0", "\"epoch\": 0.5"), ContainsSubstring("'epoch'"));
  CHECK_THROWS_WITH(damaged("{", "["), ContainsSubstring("damaged.json"));
  CHECK_THROWS_WITH(damaged("\"format\": 3", "\"format\": 7"), ContainsSubstring("format 3"));
  CHECK_THROWS_WITH(damaged("\"data_parts\": []", "\"data_parts\": [1, 2]"), ContainsSubstring("expected 3 numbers"));
}

TEST_CASE("C44: a state that knows nothing of the parts of the data, as before 0.2, is read") {
  TempDir dir;
  train::TrainState state;
  state.step = 12;
  state.data_fingerprint = 18446744073709551615u;
  state.data_parts = {1, 18446744073709551615u, 3};
  train::save_state(state, dir / "state.json");
  CHECK(train::load_state(dir / "state.json").data_parts == state.data_parts);
  auto json = nlohmann::json::parse(read_bytes(dir / "state.json"));
  json["format"] = 2;
  json.erase("data_parts");
  json.erase("good_step");
  json.erase("frozen_fingerprint");
  write_bytes(dir / "old.json", json.dump());
  const train::TrainState old = train::load_state(dir / "old.json");
  CHECK(old.data_parts.empty());
  CHECK(old.data_fingerprint == state.data_fingerprint);
  CHECK(old.good_step == 12);
}
