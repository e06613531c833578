#include "models/nearest_mean.h"

#include "tests/tiny_experiment.h"

using namespace fovea;

TEST_CASE("a model without parameters trains by seeing the data once, and is as good as its means") {
  TinyExperiment experiment(tiny_image_task(), 200, {"model.name=nearest_mean", "train.max_epochs=1"});
  std::string yaml = read_bytes(experiment.dir / "tiny.yaml");
  yaml.erase(yaml.find("model:"), yaml.find("data:") - yaml.find("model:"));
  write_bytes(experiment.dir / "tiny.yaml", yaml);
  CHECK(experiment.train("run") == train::StopReason::kEpochs);

  const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "run");
  CHECK(train::count_parameters(run.module->network()) == 0);
  const auto config = experiment.config();
  const auto data = config.make_data();
  std::vector<int64_t> all(static_cast<size_t>(data->size(data::Part::kTrain)));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const data::Batch train = data->batch(data::Part::kTrain, 0, all);
  const data::Batch test = data->batch(data::Part::kTest, 0, {0, 1, 2, 3, 4});
  const at::NoGradGuard no_grad;
  const at::Tensor logits = run.module->as<classification::Classifier>()->logits(test);
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t c = 0; c < 4; ++c) {
      const at::Tensor mean = train.tensor("image").index({train.tensor("label").eq(c)}).mean(0);
      const double distance = (test.tensor("image")[i] - mean).square().sum().item<double>();
      CHECK(logits[i][c].item<double>() == Approx(-distance).epsilon(1e-3));
    }
  }
  CHECK(train::evaluate_module(*run.module, *data, data::Part::kTest, at::kCPU).value("accuracy") > 0.8);
}

TEST_CASE("a class that was never seen is never predicted") {
  models::NearestMean network(3, 4);
  network->see(at::ones({2, 1, 2, 2}), at::tensor({1, 1}, at::kLong));
  const at::Tensor logits = network->forward(at::zeros({1, 1, 2, 2}));
  CHECK(at::isfinite(logits).all().item<bool>());
  CHECK(logits.argmax(1).item<int64_t>() == 1);
}
