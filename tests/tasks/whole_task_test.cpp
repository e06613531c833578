// The proof that a task is a room: a whole task, its data and its model stand in this file, and go through every
// command of the program without a line under src that knows them.
#include <sstream>

#include "cli/run.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/numbers.h"
#include "fovea/export/script_module.h"
#include "fovea/tasks/task.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/checkpoint_store.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;

namespace {

// ---- How the problem is posed: ten numbers, each twice another one plus three ---------------------------------------

struct DoublingSpec : data::DataSpec {
  static constexpr const char* kKind = "ten numbers";
  const char* task() const override { return "doubling"; }
  const char* kind() const override { return kKind; }
};

struct DoublingConfig : config::Section {
  double noise = 0;
  void fields(config::Fields& f) override { f("noise", noise, "added to odd numbers", config::at_least(0)); }
};

class DoublingAssets : public data::DataAssets {
 public:
  static std::shared_ptr<const DoublingAssets> load(const DoublingConfig&, const std::filesystem::path& dir) {
    if (read_file(dir / "doubling.txt") != "ten\n") fail("{}: expected ten", dir.string());
    return std::make_shared<DoublingAssets>();
  }
  const DoublingSpec& spec() const override { return spec_; }
  void save(const std::filesystem::path& dir) const override { write_file(dir / "doubling.txt", "ten\n"); }
  void check_same(const data::DataAssets& saved) const override {
    if (dynamic_cast<const DoublingAssets*>(&saved) == nullptr) fail("the checkpoint does not double");
  }

 private:
  DoublingSpec spec_;
};

class DoublingData : public data::DataModule {
 public:
  DoublingData(const DoublingConfig& config, uint64_t seed, std::shared_ptr<const DoublingAssets> assets)
      : config_(config), seed_(seed), assets_(assets ? std::move(assets) : std::make_shared<DoublingAssets>()) {}

  std::shared_ptr<const data::DataAssets> assets() const override { return assets_; }
  int64_t size(data::Part) const override { return 10; }
  data::BatchPlan plan(data::Part part, int64_t epoch) const override {
    const std::vector<int64_t> lengths(10, 1);
    return part == data::Part::kTrain ? data::plan_training_batches(lengths, {.batch_size = 4}, seed_, epoch)
                                      : data::plan_evaluation_batches(lengths, {.batch_size = 4});
  }
  data::Batch batch(data::Part, int64_t, const std::vector<int64_t>& examples) const override {
    data::Batch batch;
    const at::Tensor x = at::tensor(examples, at::kFloat).unsqueeze(1) / 10;
    batch.tensors = {{"x", x}, {"y", 2 * x + 3 + config_.noise * (at::tensor(examples).remainder(2)).unsqueeze(1)}};
    batch.examples = batch.items = x.size(0);
    return batch;
  }
  const char* unit() const override { return "numbers"; }
  uint64_t part_fingerprint(data::Part) const override { return fingerprint(); }
  uint64_t fingerprint() const override { return static_cast<uint64_t>(1000 * config_.noise) + 7; }
  std::vector<std::pair<std::string, std::string>> describe() const override { return {{"numbers", "10"}}; }

 private:
  DoublingConfig config_;
  uint64_t seed_;
  std::shared_ptr<const DoublingAssets> assets_;
};

// ---- What a model promises, and a model -----------------------------------------------------------------------------

class Doubler {
 public:
  virtual ~Doubler() = default;
  virtual at::Tensor doubled(const at::Tensor& x) const = 0;
};

struct StraightConfig : config::Section {
  bool bias = true;
  void fields(config::Fields& f) override { f("bias", bias, "a constant"); }
};

class Straight : public train::Module, public Doubler {
 public:
  Straight(const StraightConfig& config, const DoublingSpec&)
      : network_(torch::nn::LinearOptions(1, 1).bias(config.bias)) {}
  torch::nn::Module& network() override { return *network_; }
  train::LossTerms training_step(const data::Batch& batch, int64_t) override {
    const at::Tensor error = doubled(batch.tensor("x")) - batch.tensor("y");
    return {{"loss", error.square().sum(), batch.examples}};
  }
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t) const override { return {batch.examples}; }
  train::LossTerms validation_step(const data::Batch& batch) override { return training_step(batch, 0); }
  at::Tensor doubled(const at::Tensor& x) const override { return network_.ptr()->forward(x); }

 private:
  torch::nn::Linear network_;
};

// ---- The task -------------------------------------------------------------------------------------------------------

struct DoublingOptions : config::Section {
  int64_t digits = 3;
  void fields(config::Fields& f) override { f("digits", digits, "digits that are printed", config::range(0, 9)); }
};

class DoublingPredictor : public tasks::Predictor {
 public:
  DoublingPredictor(const Doubler& model, int64_t digits) : model_(model), digits_(digits) {}
  std::vector<tasks::Prediction> predict(const std::vector<std::string>& inputs) const override {
    const at::NoGradGuard no_grad;
    std::vector<tasks::Prediction> predictions;
    for (const auto& input : inputs) {
      const auto number = parse_double(input);
      if (!number) {
        predictions.push_back({.text = {}, .json = "{}", .error = input + " is no number", .warning = {}});
        continue;
      }
      const double y = model_.doubled(at::full({1, 1}, *number / 10)).item<double>();
      predictions.push_back({.text = fmt::format("{:.{}f}", y, digits_),
                             .json = fmt::format("{{\"y\": {}}}", y),
                             .error = {},
                             .warning = *number > 9 ? "beyond what was trained on" : ""});
    }
    return predictions;
  }
  size_t batch_size() const override { return 2; }

 private:
  const Doubler& model_;
  int64_t digits_;
};

tasks::Report evaluate(const train::LoadedRun& run, const tasks::EvaluateRequest& request) {
  const auto evaluated = tasks::load_part(run, request);
  const auto evaluation = train::evaluate_module(*run.module, *evaluated.data, evaluated.part, run.device);
  return {.facts = {{.key = "data", .value = evaluated.name}, {.key = "loss", .value = evaluation.value("loss")}},
          .grids = {},
          .matrices = {}};
}

exports::ScriptRecipe script(const train::Module& module, const data::DataAssets&) {
  const auto& model = tasks::contract_of<Doubler>(module, "doubling");
  return {.kind = "doubling",
          .build =
              [&](exports::ScriptModule& mirror) {
                mirror.trace(
                    "forward", {"x"}, {at::zeros({2, 1})},
                    [&](const torch::jit::Stack& in) -> torch::jit::IValue { return model.doubled(in[0].toTensor()); });
              },
          .compare =
              [&](const torch::jit::Module& loaded, const auto&) {
                exports::Comparing comparing;
                torch::jit::Module copy = loaded;
                comparing.run("batch 3", [&] {
                  const at::Tensor x = at::arange(3, at::kFloat).unsqueeze(1);
                  comparing.same("numbers", copy.forward({x}).toTensor(), model.doubled(x));
                });
                return comparing.result;
              },
          .facts_json = "{\"numbers\": 10}"};
}

tasks::Registry registry() {
  tasks::Task task{.name = "doubling",
                   .summary = "numbers doubled",
                   .verb = "double",
                   .input = "number",
                   .reads_lines = true,
                   .example = "fovea double runs/doubling 3",
                   .datasets = {data::data_entry<DoublingData, DoublingConfig, DoublingAssets>("ten", "ten numbers")},
                   .evaluate_options = [] { return std::make_shared<DoublingOptions>(); },
                   .predict_options = [] { return std::make_shared<DoublingOptions>(); },
                   .judge =
                       [] {
                         return train::Judge{.measures = {{.name = "slope", .better = train::Measure::Better::kHigher}},
                                             .run = [](const train::Module& module, const auto&, auto, auto) {
                                               const auto& model = tasks::contract_of<Doubler>(module, "doubling");
                                               const at::Tensor y =
                                                   model.doubled(at::arange(2, at::kFloat).unsqueeze(1));
                                               return std::vector<double>{(y[1] - y[0]).item<double>()};
                                             }};
                       },
                   .evaluate = evaluate,
                   .predictor = [](const train::LoadedRun& run,
                                   const config::Section& options) -> std::unique_ptr<tasks::Predictor> {
                     return std::make_unique<DoublingPredictor>(tasks::contract_of<Doubler>(*run.module, "doubling"),
                                                                dynamic_cast<const DoublingOptions&>(options).digits);
                   },
                   .script = script};
  return {{train::model_entry<Straight, StraightConfig, DoublingSpec>("straight", "", "a straight line")},
          {std::move(task)}};
}

// What a command printed and how it ended.
struct CommandResult {
  int status = 0;
  std::string out;
};

CommandResult run_command(std::vector<std::string> words) {
  words.insert(words.begin(), "fovea");
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  std::ostringstream out;
  std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
  const tasks::Registry all = registry();
  const int status = cli::run(all, static_cast<int>(argv.size()), argv.data());
  std::cout.rdbuf(before);
  return {status, out.str()};
}

std::string weights_of(const std::filesystem::path& run) {
  return read_bytes(train::CheckpointStore(run).open("last") / train::kModelFile);
}

}  // namespace

TEST_CASE("a task that stands in a test goes through every command") {
  TempDir dir;
  write_bytes(dir / "doubling.yaml",
              "seed: 1\nmodel: {name: straight}\ndata: {name: ten}\n"
              "optimizer: {name: sgd, learning_rate: 0.3, momentum: 0.5}\n"
              "train: {max_epochs: 40, watch: slope, evaluate_every: 10}\nruntime: {device: cpu, threads: 1}\n");
  const std::string config = (dir / "doubling.yaml").string(), whole = (dir / "whole").string(),
                    stopped = (dir / "stopped").string();

  CHECK(run_command({"config", "validate", config}).status == 0);
  CHECK_THAT(run_command({"config", "list"}).out, ContainsSubstring("ten numbers"));
  CHECK(run_command({"train", config, "--quiet", "--run-dir", whole}).status == 0);
  CHECK(run_command({"train", config, "--quiet", "--run-dir", stopped, "train.max_steps=17"}).status == 0);
  CHECK(run_command({"train", "--resume", stopped, "--quiet", "train.max_steps="}).status == 0);
  CHECK(weights_of(whole) == weights_of(stopped));

  const CommandResult evaluated = run_command({"evaluate", whole});
  CHECK(evaluated.status == 0);
  CHECK_THAT(evaluated.out, ContainsSubstring("checkpoint   step-") && ContainsSubstring("data         test") &&
                                ContainsSubstring("loss         0.00"));
  CHECK_THAT(run_command({"evaluate", whole, "--json", "--split", "validation"}).out,
             ContainsSubstring("\"data\":\"validation\""));

  CHECK(run_command({"predict", whole, "4", "--digits", "1"}).out == "3.8\n");
  CHECK(run_command({"double", whole, "4", "5", "0", "--digits", "1"}).out == "3.8\n4.0\n3.0\n");
  CHECK(run_command({"double", whole, "x"}).status == 2);
  CHECK(run_command({"double", whole, "4", "--digits", "77"}).status == 2);

  CHECK(run_command({"export", whole, "-o", (dir / "d.pt").string(), "--quiet"}).status == 0);
  CHECK(std::filesystem::file_size(dir / "d.pt") > 0);
  CHECK(run_command({"export", whole, "-o", (dir / "package").string(), "--format", "safetensors", "--quiet"}).status ==
        0);
  CHECK(run_command({"import", (dir / "package").string(), "-o", (dir / "again").string(), "--quiet"}).status == 0);
  CHECK(weights_of(dir / "again") == weights_of(whole));
  CHECK(run_command({"train", "--resume", (dir / "again").string(), "--quiet", "train.max_epochs=1"}).status == 0);
}
