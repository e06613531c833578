#include "models/distillation.h"

#include "fovea/train/assembly.h"
#include "fovea/train/checkpoint.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

TEST_CASE("a student learns from another run, which is neither trained nor saved with it") {
  TinyExperiment experiment(tiny_image_task(), 120);
  experiment.train("teacher", {"train.max_epochs=6", "optimizer.learning_rate=0.003"});
  const std::vector<std::string> settings = {"model.teacher=" + (experiment.dir / "teacher").string(),
                                             "model.num_blks=1", "train.max_epochs=2"};
  const auto learn = [&](const std::string& name, std::vector<std::string> more, bool resume) {
    more.insert(more.end(), settings.begin(), settings.end());
    const auto config = experiment.config(more);
    const train::Assembly assembly(config, !resume);
    const auto frozen = assembly.module->frozen();
    REQUIRE(frozen.size() == 1);
    std::vector<at::Tensor> before;
    for (const auto& p : frozen[0]->parameters()) before.push_back(p.clone());
    const auto run =
        resume ? train::RunDirectory::open_to_write(experiment.dir / name)
               : train::RunDirectory::create(experiment.dir / name, "", train::RunDirectory::Existing::kRefuse);
    Progress progress({.quiet = true});
    train::Trainer trainer(config, *assembly.module, *assembly.data, run, at::kCPU, progress);
    if (resume) trainer.resume(run.checkpoints().open("last"));
    trainer.fit();
    CHECK_FALSE(frozen[0]->is_training());
    const auto after = frozen[0]->parameters();
    for (size_t i = 0; i < after.size(); ++i) {
      CHECK(at::equal(after[i], before[i]));
      CHECK_FALSE(after[i].requires_grad());
    }
  };
  learn("whole", {}, false);
  learn("stopped", {"train.max_steps=3"}, false);
  learn("stopped", {}, true);
  CHECK(experiment.final_weights("whole") == experiment.final_weights("stopped"));
  const auto checkpoint = train::CheckpointStore(experiment.dir / "whole").open("last");
  const auto saved = train::load_safetensors(checkpoint / train::kModelFile).tensors;
  CHECK(saved.contains("blks.0.ln1.weight"));
  CHECK_FALSE(saved.contains("blks.1.ln1.weight"));  // of the teacher only

  // The student is used without its teacher, which may be gone.
  std::filesystem::remove_all(experiment.dir / "teacher");
  CHECK_NOTHROW(train::load_run(models::registry(), experiment.dir / "whole"));
  CHECK_THROWS_WITH(train::Assembly(experiment.config(settings), true), ContainsSubstring("teacher"));
}

TEST_CASE("the teacher's loss is the divergence of the softened predictions") {
  TinyExperiment experiment(tiny_image_task(), 90, {"train.max_epochs=1"});
  experiment.train("teacher");
  const models::DistillationOptions options{.teacher = experiment.dir / "teacher", .temperature = 2.0};
  const auto config = experiment.config();
  const auto data = config.make_data();
  const models::Teacher teacher(options, models::registry(), *data->assets(), at::kCPU);
  const data::Batch batch = data->batch(data::Part::kValidation, 0, {0, 1, 2});
  const at::Tensor student = at::randn({3, 4});
  const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "teacher");
  const at::NoGradGuard no_grad;
  const at::Tensor p = run.module->as<classification::Classifier>()->logits(batch).to(at::kDouble).div(2).softmax(1),
                   q = student.to(at::kDouble).div(2).softmax(1);
  CHECK(teacher.loss(student, batch).item<double>() ==
        Approx((4 * (p * (p / q).log()).sum()).item<double>()).epsilon(1e-4));
  CHECK(teacher.loss(run.module->as<classification::Classifier>()->logits(batch), batch).item<double>() ==
        Approx(0).margin(1e-5));

  TinyExperiment sentences;
  sentences.train("run", {"train.max_steps=1"});
  const models::DistillationOptions wrong{.teacher = sentences.dir / "run"};
  CHECK_THROWS_WITH(models::Teacher(wrong, models::registry(), *data->assets(), at::kCPU),
                    ContainsSubstring("transformer run, which does not classify"));
}

TEST_CASE("a teacher's classes are taken by name, and it gets images as it was trained on them") {
  TinyExperiment experiment(tiny_image_task(), 90, {"train.max_epochs=1"});
  experiment.train("teacher");
  const models::DistillationOptions options{.teacher = experiment.dir / "teacher", .temperature = 2.0};
  const auto own_data = experiment.config().make_data();
  const models::Teacher own(options, models::registry(), *own_data->assets(), at::kCPU);
  const at::Tensor student = at::randn({3, 4});
  const at::NoGradGuard no_grad;
  const auto loss = [&](const models::Teacher& teacher, const data::DataModule& data, const at::Tensor& logits) {
    return teacher.loss(logits, data.batch(data::Part::kValidation, 0, {0, 1, 2})).item<double>();
  };
  const double expected = loss(own, *own_data, student);

  const auto turned = experiment.config({"data.classes=[left, top right, top, top left]"}).make_data();
  const models::Teacher by_name(options, models::registry(), *turned->assets(), at::kCPU);
  CHECK(loss(by_name, *turned, student.flip(1)) == Approx(expected).epsilon(1e-5));

  const auto shifted = experiment.config({"data.mean=[0.9]", "data.std=[0.2]"}).make_data();
  const models::Teacher renormalising(options, models::registry(), *shifted->assets(), at::kCPU);
  CHECK(loss(renormalising, *shifted, student) == Approx(expected).epsilon(1e-4));

  const auto refused = [&](const std::string& setting) {
    const auto data = experiment.config({setting}).make_data();
    const models::Teacher teacher(options, models::registry(), *data->assets(), at::kCPU);
  };
  CHECK_THROWS_WITH(refused("data.classes=[left, top right, top, below]"),
                    ContainsSubstring("knows the classes top left, top, top right, left; the data has left"));
  CHECK_THROWS_WITH(refused("data.resize=[8, 8]"),
                    ContainsSubstring("takes images of 1 x 12 x 12, the data gives 1 x 8 x 8"));
}

TEST_CASE("a run does not go on with another teacher than it had") {
  TinyExperiment experiment(tiny_image_task(), 90);
  experiment.train("teacher", {"train.max_epochs=1"});
  const std::string teacher = "model.teacher=" + (experiment.dir / "teacher").string();
  experiment.train("student", {teacher, "train.max_steps=2"});
  std::filesystem::remove_all(experiment.dir / "teacher");
  experiment.train("teacher", {"train.max_epochs=1", "seed=9"});
  CHECK_THROWS_WITH(experiment.train("student", {teacher}, /*resume=*/true),
                    ContainsSubstring("the teacher is not the one that the run has learnt from"));
}
