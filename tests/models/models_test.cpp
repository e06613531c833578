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
#include "tests/source_dir.h"
#include "tests/tasks/image_files.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

std::vector<std::filesystem::path> shipped_configs() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("every model: forward, backward, checkpoint, the same again after loading") {
  for (const auto& entry : models::all_models()) {
    INFO(entry.named.name);
    CHECK_FALSE(entry.named.summary.empty());
    CHECK_FALSE(entry.takes.empty());
    TinyExperiment experiment(entry, 60);
    const auto config = experiment.config();
    const auto data = config.make_data();
    const auto model = config.make_model(data->spec());
    const data::Batch batch = data->batch(data::Part::kTrain, 0, {0, 1, 2});

    train::TrainingStep step(*model, config.optimizer.as<train::OptimizerConfig>(), {});
    const auto counts = model->loss_counts(batch, 0);
    const train::StepResult result = step({batch}, 0, 0.01);
    REQUIRE(result.terms.size() == counts.size());
    for (size_t i = 0; i < counts.size(); ++i) {
      CHECK(result.terms[i].count == counts[i]);
      CHECK(std::isfinite(result.terms[i].sum.item<double>()));
    }
    for (const auto& [name, parameter] : train::named_parameters(model->network())) {
      INFO(name);
      REQUIRE(parameter.grad().defined());
      CHECK(at::isfinite(parameter.grad()).all().item<bool>());
    }

    TempDir dir;
    train::save_checkpoint(dir.path(), *model, step.optimizers(), {}, config::dump(config), *data->assets());
    const auto again = config.make_model(data->spec());
    train::load_weights(dir.path(), again->network());
    model->network().eval();
    again->network().eval();
    CHECK(at::equal(model->validation_step(batch)[0].sum, again->validation_step(batch)[0].sum));
    const auto assets = config.data_entry().load_assets(*config.data.section, dir.path());
    CHECK_NOTHROW(data->assets()->check_same(*assets));
    train::TrainingStep other(*again, config.optimizer.as<train::OptimizerConfig>(), {});
    train::load_optimizer(dir.path(), other.optimizers());
    for (const auto& [name, tensor] : step.optimizers().state()) {
      CHECK(at::equal(tensor, other.optimizers().state().at(name)));
    }

    // Each measure is a term of validation, or derived from one.
    const train::LossTerms measured = model->validation_step(batch);
    const auto measures = model->measures();
    for (const auto& measure : measures) {
      const std::string& term = measure.derive == nullptr ? measure.name : measure.of;
      CHECK(std::any_of(measured.begin(), measured.end(), [&](const auto& m) { return m.name == term; }));
    }
    const at::NoGradGuard no_grad;
    if (const auto* classifier = model->as<classification::Classifier>()) {
      CHECK(train::find_measure(measures, "accuracy") != nullptr);
      const at::Tensor logits = classifier->logits(batch);
      CHECK(logits.sizes() == at::IntArrayRef({3, 4}));
      nn::AttentionRecorder recorder;
      CHECK(at::allclose(classifier->logits(batch, &recorder), logits, 1e-4, 1e-5));
    }
    if (const auto* seq2seq = model->as<decode::Seq2Seq>()) {
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
    const tasks::Registry registry = models::registry();
    const auto recipe = registry.task_of(data->spec()).script(*model, *data->assets());
    exports::export_torchscript(exportable, recipe, dir / "model.pt", [](const std::string&) {});
    CHECK(std::filesystem::file_size(dir / "model.pt") > 0);
    CHECK(model->network().is_training());
    exports::export_package(exportable, dir / "package.safetensors");
    const exports::Package package(dir / "package.safetensors");
    const auto imported = config.make_model(data->spec());
    CHECK(exports::import_weights(imported->network(), exports::load_foreign_weights(package.weights()), {}, "package")
              .empty());
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
    TinyExperiment experiment(entry, 60, {"train.max_epochs=2"});
    experiment.train("whole");
    experiment.train("stopped", {"train.max_steps=1"});
    experiment.train("stopped", {}, true);
    CHECK(experiment.final_weights("whole") == experiment.final_weights("stopped"));
  }
}

TEST_CASE("every config that ships loads, builds, reads back, and says how to run it") {
  TempDir dir;
  write_bytes(dir / "corpus.tsv", reversing_corpus(4000));
  write_bytes(dir / "sine.tsv", sine_table(300));
  write_tiny_images(dir.path(), 3000, 10, 28, 9);
  for (const int i : {1, 2, 3, 4}) {
    for (const char* name : {"cat", "dog"}) {
      write_png(dir / "photos" / name / (std::to_string(i) + ".png"), 64, 64, static_cast<uint64_t>(i));
    }
  }
  REQUIRE(shipped_configs().size() >= 5);
  for (const auto& file : shipped_configs()) {
    INFO(file);
    const std::string data_name = train::load_experiment(models::registry(), file).data.name;
    const auto path = data_name == "translation"    ? dir / "corpus.tsv"
                      : data_name == "table"        ? dir / "sine.tsv"
                      : data_name == "image_folder" ? dir / "photos"
                                                    : dir.path();
    const bool reads_files = data_name != "noisy_function";
    const auto config = train::load_experiment(
        models::registry(), file,
        reads_files ? std::vector<std::string>{"data.path=" + path.string()} : std::vector<std::string>{});
    const auto data = config.make_data();
    const auto model = config.make_model(data->spec());
    CHECK_FALSE(train::persistent_tensors(model->network()).empty());
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
