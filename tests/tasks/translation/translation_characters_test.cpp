// Translation with another tokenizer than words, from the YAML to the exported file.
#include <torch/script.h>

#include <nlohmann/json.hpp>

#include "fovea/config/dump.h"
#include "fovea/export/torchscript.h"
#include "fovea/tasks/translation/dataset.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

const std::vector<std::string> kByCharacters = {"data.tokenizer.name=characters", "data.num_steps=24"};

const translation::TranslationAssets& as_translation(const data::DataAssets& assets) {
  return dynamic_cast<const translation::TranslationAssets&>(assets);
}

}  // namespace

TEST_CASE("characters: a run trains, is resumed to the same bytes, and translates") {
  TinyExperiment experiment(100, kByCharacters);
  experiment.train("whole", {"train.max_epochs=2"});
  experiment.train("stopped", {"train.max_epochs=2", "train.max_steps=2"});
  experiment.train("stopped", {"train.max_epochs=2"}, true);
  CHECK(experiment.final_weights("whole") == experiment.final_weights("stopped"));

  const tasks::Registry registry = models::registry();
  const auto run = train::load_run(registry, experiment.dir / "whole");
  const auto& assets = as_translation(*run.assets);
  CHECK(assets.source().name() == "characters");
  CHECK(assets.source().id(" ") != assets.source().unk());
  CHECK(assets.labels("source").size() == static_cast<size_t>(assets.source().size()));
  CHECK(assets.source().decode(assets.encode("ba  CE")) == "ba ce");
  bool is_cut = false;
  CHECK(assets.encode(std::string(24, 'b'), &is_cut).size() == 24);
  CHECK(is_cut);
  CHECK(assets.encode(" \t").empty());

  const tasks::Task& task = registry.task_of(run.assets->spec());
  const auto predictor = task.predictor(run, *task.predict_options());
  const auto predictions = predictor->predict({"ba ce 5", "", "zebra \U0001F600"});
  REQUIRE(predictions.size() == 3);
  for (const auto& prediction : predictions) {
    CHECK(prediction.error.empty());
    CHECK(prediction.text.find("<eos>") == std::string::npos);
  }
  CHECK(predictions[1].text.empty());

  // The parts are those of words, and what differs is said.
  TinyExperiment words(100);
  const auto by_words = words.config().make_data(), by_characters = experiment.config().make_data();
  const auto pairs = [](const data::DataModule& data) {
    return dynamic_cast<const translation::TranslationData&>(data).pairs(data::Part::kTest);
  };
  CHECK(pairs(*by_words) == pairs(*by_characters));
  CHECK_THROWS_WITH(by_words->assets()->check_same(*run.assets),
                    ContainsSubstring("the source tokenizer is not that of the checkpoint: it was characters, now "
                                      "words"));
  CHECK_NOTHROW(by_characters->assets()->check_same(*run.assets));
  CHECK_THAT(by_characters->describe().back().second, ContainsSubstring(" characters of the source, "));
}

TEST_CASE("characters: the exported file says so and brings its characters") {
  for (const std::string name : {"words", "characters"}) {
    TinyExperiment experiment(60, {"data.tokenizer.name=" + name, "data.num_steps=24"});
    const auto config = experiment.config();
    const auto data = config.make_data();
    const auto model = config.make_model(data->spec());
    const auto recipe = models::registry().task_of(data->spec()).script(*model, *data->assets());
    exports::export_torchscript({*model, *data->assets(), "transformer", config::dump(config), "step-1"}, recipe,
                                experiment.dir / "m.pt", [](const std::string&) {});
    torch::jit::ExtraFilesMap files = {{"model.json", ""}, {"source_tokens.txt", ""}};
    const auto module = torch::jit::load((experiment.dir / "m.pt").string(), at::kCPU, files);
    CHECK(nlohmann::json::parse(files.at("model.json"))["tokenizer"] == name);
    CHECK(module.attr("tokenizer").toStringRef() == name);
    const std::string& tokens = files.at("source_tokens.txt");
    CHECK(std::count(tokens.begin(), tokens.end(), '\n') == as_translation(*data->assets()).source().size());
    CHECK((tokens.find("\n \n") != std::string::npos || tokens.starts_with(" \n")) == (name == "characters"));
  }
}
