// Runs, checkpoints and exports of fovea 0.1 keep working. The numbers are what 0.1 itself printed.
#include <nlohmann/json.hpp>

#include "fovea/export/import_weights.h"
#include "fovea/export/package.h"
#include "fovea/tasks/translation/dataset.h"
#include "fovea/tasks/translation/translator.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/run.h"
#include "tests/source_dir.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

const std::filesystem::path kFixture = source_dir() / "tests/fixtures/v0.1";

std::vector<std::string> translate(const train::LoadedRun& run) {
  const auto& assets = dynamic_cast<const translation::TranslationAssets&>(*run.assets);
  const translation::Translator translator(*run.module->as<decode::Seq2Seq>(), assets, run.device, {});
  return translator.best({"ba ce di", "fo gu", "ha"});
}

const std::vector<std::string> kTranslations = {"dix", "fox", "hax dix"};

}  // namespace

TEST_CASE("a run of 0.1 has the loss and the translations it had") {
  const train::LoadedRun run = train::load_run(models::registry(), kFixture / "run");
  CHECK(translate(run) == kTranslations);
  CHECK_FALSE(run.config.data.as<translation::TranslationConfig>().unify_characters);  // 0.1 did not (C55)
  const translation::TranslationData data(run.config.data.as<translation::TranslationConfig>(),
                                          translation::read_tsv(kFixture / "corpus.tsv").pairs,
                                          std::dynamic_pointer_cast<const translation::TranslationAssets>(run.assets));
  const auto evaluation = train::evaluate_module(*run.module, data, data::Part::kTest, at::kCPU);
  CHECK(evaluation.value("loss") == Approx(1.530334734916687).epsilon(1e-5));
  CHECK(evaluation.value("perplexity") == Approx(4.619722946090011).epsilon(1e-5));
  CHECK(evaluation.count == 320);
}

TEST_CASE("a checkpoint of 0.1 is resumed as 0.1 resumed it") {
  TempDir dir;
  std::filesystem::copy(kFixture / "run", dir / "run",
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  const auto run = train::RunDirectory::open_to_write(dir / "run");
  const auto checkpoint = run.checkpoints().open("last");
  const auto config = train::load_experiment(models::registry(), checkpoint / train::kConfigFile,
                                             {"data.path=" + (kFixture / "corpus.tsv").string(), "train.max_epochs=14"},
                                             config::Document::kRuns);
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  Progress progress({.quiet = true});
  train::Trainer trainer(config, *module, *data, run, at::kCPU, progress);
  trainer.resume(checkpoint);
  CHECK(trainer.state().step == 48);
  CHECK(trainer.state().best == 1.6750788969152115);
  CHECK(trainer.fit() == train::StopReason::kEpochs);
  CHECK(trainer.state().step == 56);
  const auto evaluation = train::evaluate_module(*module, *data, data::Part::kValidation, at::kCPU);
  CHECK(evaluation.value("loss") == Approx(1.7353253084070541).epsilon(1e-4));
}

TEST_CASE("an export of 0.1 is imported") {
  const exports::Package package(kFixture / "package.safetensors");
  const auto config = train::load_experiment(models::registry(), package.config(), {}, config::Document::kRuns);
  const auto assets = config.data_entry().load_assets(*config.data.section, package.assets());
  auto module = config.make_model(assets->spec());
  CHECK(exports::import_weights(module->network(), exports::load_foreign_weights(package.weights()), {}, "package")
            .empty());
  module->network().eval();
  const train::LoadedRun run{config, assets, std::move(module), at::kCPU, {}};
  CHECK(translate(run) == kTranslations);
}
