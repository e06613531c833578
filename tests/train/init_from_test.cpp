#include "fovea/train/init_from.h"

#include "fovea/train/assembly.h"
#include "fovea/train/checkpoint.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

std::map<std::string, at::Tensor> tensors_of(train::Module& module) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : train::persistent_tensors(module.network())) tensors[name] = tensor;
  return tensors;
}

// What the checkpoint of a run holds.
std::map<std::string, at::Tensor> saved(const std::filesystem::path& run) {
  return train::load_safetensors(train::CheckpointStore(run).open() / train::kModelFile).tensors;
}

std::string text_of(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::string text;
  for (const auto& [name, line] : lines) text += name + " " + line + "\n";
  return text;
}

}  // namespace

TEST_CASE("C62: a model starts from another run's weights; words keep their rows wherever they stand") {
  TinyExperiment experiment(80);
  experiment.train("first", {"train.max_epochs=1"});
  // Another corpus: new words, which move the ids of the old ones.
  write_bytes(experiment.dir / "other.tsv", reversing_corpus(40) + "aa ab\tabx aax\naa\taax\naa ab ba\tbax abx aax\n");
  const auto config = experiment.config({"data.path=" + (experiment.dir / "other.tsv").string(),
                                         "train.init_from=" + (experiment.dir / "first").string(),
                                         "data.validation.size=0", "data.test.size=0"});
  const train::Assembly assembly(config, /*fresh=*/true);
  const auto now = tensors_of(*assembly.module), then = saved(experiment.dir / "first");
  CHECK(at::equal(now.at("encoder.blks.block0.attention.W_q.weight"),
                  then.at("encoder.blks.block0.attention.W_q.weight")));
  const auto old_config = experiment.config();
  const auto old_assets = old_config.make_data()->assets();
  const auto there = old_assets->labels("source"), here = assembly.data->assets()->labels("source");
  REQUIRE(there != here);
  int64_t kept = 0;
  for (size_t i = 0; i < here.size(); ++i) {
    const auto found = std::find(there.begin(), there.end(), here[i]);
    if (found == there.end()) continue;
    ++kept;
    CHECK(at::equal(now.at("encoder.embedding.weight")[static_cast<int64_t>(i)],
                    then.at("encoder.embedding.weight")[found - there.begin()]));
  }
  CHECK(kept > 8);
  CHECK_THAT(text_of(assembly.notes), ContainsSubstring("encoder.embedding.weight: " + std::to_string(kept) + " of ") &&
                                          ContainsSubstring("by name") && ContainsSubstring("decoder.dense.weight"));
}

TEST_CASE("only what lies below a prefix is taken over, also into another model") {
  TinyExperiment experiment(80);
  experiment.train("first", {"train.max_epochs=1"});
  const auto config = experiment.config({"train.init_from=" + (experiment.dir / "first").string(),
                                         "train.init_only=[encoder]", "seed=9", "data.split=by_source"});
  const train::Assembly assembly(config, true);
  const auto now = tensors_of(*assembly.module), then = saved(experiment.dir / "first");
  CHECK(at::equal(now.at("encoder.blks.block0.ffn.dense1.weight"), then.at("encoder.blks.block0.ffn.dense1.weight")));
  CHECK_FALSE(
      at::equal(now.at("decoder.blks.block0.ffn.dense1.weight"), then.at("decoder.blks.block0.ffn.dense1.weight")));

  write_bytes(experiment.dir / "map.txt", "encoder.* = encoder.*\ndecoder.* = -\n");
  const auto refused = [&](const std::vector<std::string>& more) {
    return error_of([&] {
      auto all = more;
      all.push_back("train.init_from=" + (experiment.dir / "first").string());
      train::Assembly(experiment.config(all), true);
    });
  };
  CHECK_THAT(refused({"model.num_hiddens=32"}),
             ContainsSubstring("[16, 16] in the run, [32, 32] here") && ContainsSubstring("train.init_only"));
  CHECK_THAT(refused({"model.num_blks=2"}),
             ContainsSubstring("encoder.blks.block1") && ContainsSubstring("no such weight"));
  CHECK_THAT(refused({"train.init_only=[nothing]"}), ContainsSubstring("no weight of the model is below these names"));
  CHECK_THAT(refused({"train.init_map=" + (experiment.dir / "map.txt").string()}),
             ContainsSubstring("decoder") && ContainsSubstring("no such weight"));
  CHECK(refused({"train.init_map=" + (experiment.dir / "map.txt").string(), "train.init_only=[encoder]"}).empty());
  CHECK_THAT(error_of([&] { experiment.config({"train.init_only=[encoder]"}); }), ContainsSubstring("init_from"));
}

TEST_CASE("a classifier with other classes gets a head that keeps the classes it shares") {
  TinyExperiment experiment(tiny_image_task(), 90, {"train.max_epochs=1"});
  experiment.train("first");
  const auto config = experiment.config(
      {"data.classes=[left, new, top, top left]", "train.init_from=" + (experiment.dir / "first").string()});
  const train::Assembly assembly(config, true);
  const auto now = tensors_of(*assembly.module), then = saved(experiment.dir / "first");
  CHECK(at::equal(now.at("head.1.weight")[0], then.at("head.1.weight")[3]));
  CHECK(at::equal(now.at("head.1.weight")[3], then.at("head.1.weight")[0]));
  CHECK(at::equal(now.at("cls_token"), then.at("cls_token")));
  CHECK_THAT(text_of(assembly.notes), ContainsSubstring("head.1.weight: 3 of 4 rows by name, 1 new"));
}

TEST_CASE("a tuned run with a frozen encoder is resumed to the same bytes, and its encoder stays") {
  TinyExperiment experiment(80);
  experiment.train("first", {"train.max_epochs=1"});
  const std::vector<std::string> settings = {"train.init_from=" + (experiment.dir / "first").string(),
                                             "train.freeze=[encoder]", "model.dropout=0.3"};
  const auto tune = [&](const std::string& name, std::vector<std::string> more, bool resume) {
    more.insert(more.end(), settings.begin(), settings.end());
    experiment.train(name, more, resume);
  };
  tune("whole", {}, false);
  tune("stopped", {"train.max_steps=4"}, false);
  tune("stopped", {}, true);
  CHECK(experiment.final_weights("whole") == experiment.final_weights("stopped"));
  const auto then = saved(experiment.dir / "first");
  const auto now =
      train::load_safetensors(train::CheckpointStore(experiment.dir / "whole").open("last") / train::kModelFile)
          .tensors;
  for (const auto& [name, tensor] : now) {
    if (name.starts_with("encoder.")) CHECK(at::equal(tensor, then.at(name)));
  }
  CHECK_FALSE(at::equal(now.at("decoder.dense.weight"), then.at("decoder.dense.weight")));
}
