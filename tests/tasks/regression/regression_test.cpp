#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/tasks/regression/dataset.h"
#include "fovea/tasks/regression/task.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

tasks::Report evaluate(const train::LoadedRun& run, const std::vector<std::filesystem::path>& files = {}) {
  const auto options = regression::task().evaluate_options();
  return regression::task().evaluate(run, {.files = files, .options = options.get()});
}

}  // namespace

TEST_CASE("a small network learns a curve, beats the straight line, predicts and says where it cannot") {
  TinyExperiment experiment(tiny_regression(), 200, {"model.dropout=0", "train.max_epochs=60", "train.watch=r2"});
  experiment.train("run");
  const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "run");
  const auto report = nlohmann::json::parse(evaluate(run).json());
  CHECK(report.at("rows") == 15);
  CHECK(report.at("r2").get<double>() > 0.95);
  CHECK(report.at("straight_line_r2").get<double>() < report.at("r2").get<double>());
  CHECK(experiment.state.best.value() > 0.9);

  const auto options = regression::task().predict_options();
  const auto predictor = regression::task().predictor(run, *options);
  const auto predictions = predictor->predict({"1.5", "x", "3.0", "1,2", ""});
  CHECK(std::stod(predictions[0].text) == Approx(2 * std::sin(1.5) + 0.75).margin(0.3));
  CHECK_THAT(predictions[1].error, ContainsSubstring("column 1: expected a number, found \"x\""));
  CHECK(predictions[2].error.empty());
  CHECK_THAT(predictions[3].error, ContainsSubstring("expected 1 number, found 2"));
  CHECK_FALSE(predictions[4].error.empty());
  CHECK(nlohmann::json::parse(predictions[0].json).at("prediction").size() == 1);

  write_bytes(experiment.dir / "new.csv", "x,y\n1,2.2\n2,2.8\n");
  CHECK(nlohmann::json::parse(evaluate(run, {experiment.dir / "new.csv"}).json()).at("rows") == 2);
  write_bytes(experiment.dir / "wide.csv", "1,2,3\n");
  CHECK_THROWS_WITH(evaluate(run, {experiment.dir / "wide.csv"}), ContainsSubstring("rows of 2 columns, found 3"));
}

TEST_CASE("several features and targets; a column that never changes; equal rows in one part") {
  TempDir dir;
  std::string text = "a\tb\tc\ty\tz\n";
  for (int i = 0; i < 40; ++i) {
    text += std::to_string(i % 20) + "\t5\t" + std::to_string(i % 20 * 3) + "\t1\t" + std::to_string(i % 20) + "\n";
  }
  write_bytes(dir / "t.tsv", text);
  regression::TableConfig config;
  config.path = dir / "t.tsv";
  config.num_targets = 2;
  config.validation.size = 0.2;
  const regression::TableData data(config, 1);
  const auto assets = std::dynamic_pointer_cast<const regression::TableAssets>(data.assets());
  CHECK(assets->spec().num_features == 3);
  CHECK(assets->spec().num_targets == 2);
  CHECK(data.size(data::Part::kTrain) % 2 == 0);
  CHECK(data.size(data::Part::kTrain) + data.size(data::Part::kValidation) == 40);
  REQUIRE(data.warnings().size() == 1);  // C52
  CHECK_THAT(data.warnings()[0], ContainsSubstring("train: column 4, a target, is the same in all rows"));
  const data::Batch batch = data.batch(data::Part::kTrain, 0, {0, 1});
  CHECK(batch.tensor("x").sizes() == at::IntArrayRef({2, 3}));
  CHECK(batch.tensor("x").select(1, 1).abs().max().item<double>() == 0);
  CHECK(at::allclose(assets->targets_in_units(batch.tensor("y")).select(1, 0), at::ones({2}, at::kDouble)));

  assets->save(dir.path());
  CHECK_NOTHROW(assets->check_same(*regression::TableAssets::load(config, dir.path())));
  write_bytes(dir / "table.json", "{\"format\": \"fovea-table-1\", \"features\": 9, \"scales\": []}");
  CHECK_THROWS_WITH(regression::TableAssets::load(config, dir.path()), ContainsSubstring("table.json"));
  config.num_targets = 5;
  CHECK_THROWS_WITH(regression::TableData(config, 1), ContainsSubstring("data.num_targets"));
}
