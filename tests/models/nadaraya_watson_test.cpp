#include "models/attention_pooling.h"

#include "fovea/tasks/regression/function.h"
#include "fovea/train/step.h"
#include "tests/numeric.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

const TinyTask& tiny_curve() {
  static const TinyTask task{"tables of numbers",
                             "seed: 1\n"
                             "model: {name: nadaraya_watson}\n"
                             "data: {name: noisy_function}\n"
                             "optimizer: {name: sgd, learning_rate: 25}\n"
                             "train: {max_epochs: 5, log_every: 1}\n"
                             "runtime: {device: cpu, threads: 1}\n",
                             [](const std::filesystem::path&, int64_t) {}};
  return task;
}

struct Fitted {
  double test_loss = 0, entropy = 0;
};

Fitted fit(const std::vector<std::string>& settings) {
  TinyExperiment experiment(tiny_curve(), 0, settings);
  experiment.train("run");
  const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "run");
  const auto data = experiment.config().make_data();
  std::vector<int64_t> all(50);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const data::Batch test = data->batch(data::Part::kTest, 0, all);
  const at::NoGradGuard no_grad;
  nn::AttentionRecorder recorder;
  const at::Tensor y = run.module->as<regression::Regressor>()->predict(test, &recorder);
  Fitted fitted;
  fitted.test_loss = at::mse_loss(y, test.tensor("y")).item<double>();
  if (!recorder.records().empty()) {
    CHECK(recorder.records()[0].name == "attention");
    const at::Tensor weights = recorder.records()[0].weights;  // (1, 1, queries, keys)
    CHECK(weights.sizes() == at::IntArrayRef({1, 1, 50, 50}));
    fitted.entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean().item<double>();
  }
  return fitted;
}

}  // namespace

TEST_CASE("the learnt width takes the book's five steps") {
  const auto c = fovea_tests::Golden("attention_pooling").at("learnt");
  regression::RegressionSpec spec;
  spec.num_examples = 30;
  spec.x = c.input("keys").unsqueeze(1);
  spec.y = c.input("values").unsqueeze(1);
  models::NadarayaWatsonConfig config;
  config.pooling.learn_width = true;
  models::NadarayaWatson model(config, spec);
  {
    const at::NoGradGuard no_grad;
    model.network().named_parameters()["attention.w"].copy_(c.get("param.w"));
  }
  data::Batch batch;
  batch.tensors = {{"x", spec.x}, {"y", spec.y}, {"row", at::arange(30)}};
  batch.examples = batch.items = 30;
  train::TrainingStep step(model, train::SgdConfig(), {});
  const at::Tensor losses = c.get("sgd.losses"), widths = c.get("sgd.w");
  for (int64_t i = 0; i < 5; ++i) {
    const train::StepResult result = step({batch}, i, 0.5 * 30);  // the book's loss is the sum over 30 points
    CHECK(result.terms[0].sum.item<double>() / 30 == Approx(losses[i].item<double>()).margin(1e-4));
    CHECK(model.network().named_parameters()["attention.w"].item<double>() ==
          Approx(widths[i].item<double>()).epsilon(1e-3));
  }
  batch.tensors = {{"x", c.input("queries").unsqueeze(1)}};
  const at::NoGradGuard no_grad;
  CHECK(fovea_tests::max_difference(model.predict(batch).squeeze(1), c.output("output")) < 1e-3);
}

TEST_CASE("attention pooling beats pooling that does not look, and a learnt width is sharper than 1") {
  const Fitted average = fit({"model.name=pooling", "train.max_epochs=1"});
  const Fitted greatest = fit({"model.name=pooling", "model.kind=max", "train.max_epochs=1"});
  const Fitted dense = fit({"model.name=pooling", "model.kind=fully_connected", "optimizer.learning_rate=0.001"});
  const Fitted fixed = fit({"train.max_epochs=1"});
  const Fitted learnt = fit({"model.learn_width=true"});
  for (const auto* blind : {&average, &greatest, &dense}) CHECK(fixed.test_loss < blind->test_loss);
  CHECK(learnt.test_loss < average.test_loss);
  CHECK(learnt.entropy < fixed.entropy);
}

TEST_CASE("a run of attention pooling remembers its rows") {
  for (const char* setting : {"model.learn_width=true", "model.kernel=boxcar"}) {
    TinyExperiment experiment(tiny_curve(), 0, {setting});
    experiment.train("run");
    const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "run");
    CHECK(run.assets->spec().task() == std::string("regression"));
    const auto& spec = dynamic_cast<const regression::RegressionSpec&>(run.assets->spec());
    CHECK(spec.num_examples == 50);
    CHECK(run.module->network().named_buffers()["keys"].abs().sum().item<double>() > 0);
  }
}

TEST_CASE("points are made of the seed alone, and the test part is the curve itself") {
  regression::FunctionConfig config;
  const regression::FunctionData a(config, 1), b(config, 1), c(config, 2);
  CHECK(a.fingerprint() == b.fingerprint());
  CHECK(a.fingerprint() != c.fingerprint());
  const data::Batch test = a.batch(data::Part::kTest, 0, {0, 10, 49});
  CHECK(test.tensor("x").flatten()[1].item<double>() == Approx(1.0));
  CHECK(test.tensor("y").flatten()[1].item<double>() == Approx(2 * std::sin(1.0) + 1));
  const data::Batch train = a.batch(data::Part::kTrain, 0, {3, 4, 5});
  CHECK(at::equal(train.tensor("row"), at::tensor({3, 4, 5}, at::kLong)));
  const at::Tensor x = train.tensor("x").flatten();
  CHECK(x[0].item<double>() <= x[1].item<double>());
}
