// What every registered model and every config that ships must be able to do; a new one is covered by being listed.
#include "models/models.h"

#include "fovea/config/dump.h"
#include "fovea/config/read.h"
#include "fovea/export/import_weights.h"
#include "fovea/export/package.h"
#include "fovea/export/torchscript.h"
#include "fovea/nn/random.h"
#include "fovea/train/checkpoint.h"
#include "tests/numeric.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

std::vector<std::filesystem::path> shipped_configs() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FOVEA_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("every model: forward, backward, checkpoint, the same again after loading") {
  for (const auto& entry : models::all_models()) {
    INFO(entry.named.name);
    CHECK_FALSE(entry.named.summary.empty());
    CHECK_FALSE(entry.chapter.empty());
    TinyExperiment experiment(kind_of(entry), 60, {"model.name=" + entry.named.name});
    const auto config = experiment.config();
    const auto data = config.make_data();
    const auto model = config.make_model(data->spec());
    const data::Batch batch = data->batch(data::Part::kTrain, 0, {0, 1, 2});

    const nn::RandomScope scope(1, 1);
    const train::LossTerms terms = model->training_step(batch);
    const auto counts = model->loss_counts(batch);
    REQUIRE(terms.size() == counts.size());
    CHECK(terms[0].name == "loss");
    at::Tensor loss = at::zeros({});
    for (size_t i = 0; i < terms.size(); ++i) {
      CHECK(terms[i].count == counts[i]);
      CHECK(terms[i].sum.dim() == 0);
      loss = loss + terms[i].sum / static_cast<double>(counts[i]);
    }
    loss.backward();
    for (const auto& [name, parameter] : train::named_parameters(model->network())) {
      INFO(name);
      REQUIRE(parameter.grad().defined());
      CHECK(at::isfinite(parameter.grad()).all().item<bool>());
    }

    const auto optimizer = train::make_optimizer(config.optimizer.as<train::OptimizerConfig>(), *model);
    optimizer->step(0.01);
    TempDir dir;
    train::save_checkpoint(dir.path(), *model, *optimizer, {}, config::dump(config), *data->assets());
    const auto again = config.make_model(data->spec());
    train::load_weights(dir.path(), again->network());
    model->network().eval();
    again->network().eval();
    CHECK(at::equal(model->validation_step(batch)[0].sum, again->validation_step(batch)[0].sum));
    const auto assets = config.data_entry().load_assets(*config.data.section, dir.path());
    CHECK_NOTHROW(data->assets()->check_same(*assets));
    const auto other = train::make_optimizer(config.optimizer.as<train::OptimizerConfig>(), *again);
    train::load_optimizer(dir.path(), *other);
    for (const auto& [name, tensor] : optimizer->state()) CHECK(at::equal(tensor, other->state().at(name)));

    const train::LossTerms measured = model->validation_step(batch);
    const auto measures = model->measures();
    REQUIRE(measured.size() == measures.size());
    for (size_t i = 0; i < measured.size(); ++i) CHECK(measured[i].name == measures[i]);
    const bool has_accuracy = std::find(measures.begin(), measures.end(), "accuracy") != measures.end();
    CHECK(has_accuracy == (model->classifier() != nullptr));
    if (classification::Classifier* classifier = model->classifier()) {
      const at::NoGradGuard no_grad;
      const at::Tensor logits = classifier->logits(batch.tensor("image"));
      CHECK(logits.sizes() == at::IntArrayRef({3, 4}));
      nn::AttentionRecorder recorder;
      CHECK(at::allclose(classifier->logits(batch.tensor("image"), &recorder), logits, 1e-4, 1e-5));
      CHECK_FALSE(recorder.records().empty());
    }
    CHECK((model->seq2seq() != nullptr || model->classifier() != nullptr));
    if (decode::Seq2Seq* seq2seq = model->seq2seq()) {
      const at::NoGradGuard no_grad;
      auto state = seq2seq->encode(batch.tensor("source"), batch.layout("source"), 4);
      for (const auto& tensor : state.tensors) CHECK(tensor.size(0) == 3);
      CHECK(state.next_position() == 0);
      const auto [logits, next] = seq2seq->decode_step(batch.tensor("target").select(1, 0), std::move(state));
      CHECK(logits.size(0) == 3);
      CHECK(next.next_position() == 1);
    }

    // Exported right after a training step, and compared by the export itself with the live model.
    model->network().train();
    const exports::Exportable exportable{*model, *data->assets(), entry.named.name, config::dump(config), "step-1"};
    exports::export_torchscript(exportable, dir / "model.pt", [](const std::string&) {});
    CHECK(std::filesystem::file_size(dir / "model.pt") > 0);
    CHECK(model->network().is_training());
    exports::export_package(exportable, dir / "package.safetensors");
    const exports::Package package(dir / "package.safetensors");
    const auto imported = config.make_model(data->spec());
    CHECK(exports::import_weights(imported->network(), exports::load_foreign_weights(package.weights()), {}, "package").empty());
    for (const auto& [name, tensor] : train::persistent_tensors(model->network())) {
      const auto found = train::persistent_tensors(imported->network());
      CHECK(std::any_of(found.begin(), found.end(), [&, &n = name, &t = tensor](const auto& item) {
        return item.first == n && at::equal(item.second, t);
      }));
    }
  }
}

TEST_CASE("every model is trained, stopped and resumed to the same bytes") {
  for (const auto& entry : models::all_models()) {
    INFO(entry.named.name);
    TinyExperiment experiment(kind_of(entry), 60, {"model.name=" + entry.named.name, "train.max_epochs=2"});
    experiment.train("whole");
    experiment.train("stopped", {"train.max_steps=1"});
    experiment.train("stopped", {}, true);
    CHECK(experiment.final_weights("whole") == experiment.final_weights("stopped"));
  }
}

TEST_CASE("every config that ships loads, builds, reads back, and says how to run it") {
  TempDir dir;
  write_bytes(dir / "corpus.tsv", reversing_corpus(4000));
  write_tiny_images(dir.path(), 3000, 10, 28, 9);
  REQUIRE(shipped_configs().size() >= 5);
  for (const auto& file : shipped_configs()) {
    INFO(file);
    const bool translates = train::load_experiment(models::registry(), file).data.name == "translation";
    const auto path = translates ? dir / "corpus.tsv" : dir.path();
    const auto config = train::load_experiment(models::registry(), file, {"data.path=" + path.string()});
    const auto data = config.make_data();
    const auto model = config.make_model(data->spec());
    CHECK(train::count_parameters(model->network()) > 0);
    CHECK(data->size(data::Part::kTrain) > 0);

    train::ExperimentConfig again(models::registry());
    const std::string text = config::dump(config);
    config::read(again, config::parse_yaml(text, "dump"));
    CHECK(config::dump(again) == text);

    const std::string yaml = read_bytes(file);
    CHECK_THAT(yaml, ContainsSubstring("fovea train configs/" + file.filename().string()));
    CHECK(yaml.starts_with("# "));
  }
}

TEST_CASE("defaults are within their own ranges") {
  for (const auto& entry : models::all_models()) {
    const auto section = entry.named.make();
    const auto again = entry.named.make();
    config::read(*again, config::parse_yaml(config::dump(*section), "defaults"));
    CHECK(config::dump(*again) == config::dump(*section));
  }
  for (const auto& entry : train::all_optimizers()) {
    const auto section = entry.make();
    CHECK_NOTHROW(config::read(*entry.make(), config::parse_yaml(config::dump(*section), "defaults")));
  }
}
