#include "fovea/train/step.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "fovea/config/read.h"
#include "fovea/data/loader.h"
#include "fovea/train/checkpoint.h"
#include "tests/numeric.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

namespace {

// ---- Two networks that play against each other on a line of numbers -------------------------------------------------

// Numbers around 4.
class NumberLine : public data::DataModule {
 public:
  std::shared_ptr<const data::DataAssets> assets() const override { return nullptr; }
  int64_t size(data::Part part) const override { return part == data::Part::kTest ? 0 : 64; }
  data::BatchPlan plan(data::Part, int64_t epoch) const override {
    return data::plan_training_batches(std::vector<int64_t>(64, 1), {.batch_size = 16}, 1, epoch);
  }
  data::Batch batch(data::Part, int64_t, const std::vector<int64_t>& examples) const override {
    data::Batch batch;
    batch.tensors["x"] = 4 + 0.5 * at::sin(at::tensor(examples, at::kFloat)).unsqueeze(1);  // (batch, 1)
    batch.examples = batch.items = static_cast<int64_t>(examples.size());
    return batch;
  }
  const char* unit() const override { return "numbers"; }
  uint64_t part_fingerprint(data::Part) const override { return 1; }
  uint64_t fingerprint() const override { return 1; }
  std::vector<std::pair<std::string, std::string>> describe() const override { return {}; }
};

struct DuelNetImpl : torch::nn::Module {
  DuelNetImpl() {
    maker = register_module("maker", torch::nn::Linear(1, 1));
    critic_hidden = register_module("critic_hidden", torch::nn::Linear(1, 16));
    critic = register_module("critic", torch::nn::Linear(16, 1));
    noise = register_module("noise", nn::Dropout(0.5));
    nn::assign_paths(*this);
  }
  // Noise out of dropout, so that it is drawn by (seed, step).
  at::Tensor make(int64_t count) { return maker->forward(noise->forward(at::ones({count, 1}))); }
  at::Tensor judge(const at::Tensor& x) { return critic->forward(at::relu(critic_hidden->forward(x))); }

  torch::nn::Linear maker{nullptr}, critic_hidden{nullptr}, critic{nullptr};
  nn::Dropout noise{nullptr};
};
TORCH_MODULE(DuelNet);

// A generative adversarial network: the critic takes two turns, the maker one.
class Duel : public train::Module {
 public:
  enum Turn { kCritic, kMaker };

  torch::nn::Module& network() override { return *net; }
  std::vector<train::Turn> turns() override {
    return {{.name = "critic",
             .groups = {{.names = {"critic_hidden.weight", "critic_hidden.bias", "critic.weight", "critic.bias"}}},
             .times = 2},
            {.name = "maker", .groups = {{.names = {"maker.weight", "maker.bias"}}}, .learning_rate_factor = 0.5}};
  }
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override {
    ++turns_taken[static_cast<size_t>(turn)];
    const at::Tensor made = net->make(batch.examples);
    if (turn == kMaker) return {{"maker_loss", at::softplus(-net->judge(made)).sum(), batch.examples}};
    const at::Tensor loss = at::softplus(-net->judge(batch.tensor("x"))) + at::softplus(net->judge(made.detach()));
    return {{"critic_loss", loss.sum(), batch.examples}};
  }
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t) const override { return {batch.examples}; }
  train::LossTerms validation_step(const data::Batch& batch) override {
    return {{"distance", (net->make(batch.examples).mean() - batch.tensor("x").mean()).abs() * batch.examples,
             batch.examples}};
  }
  std::vector<train::Measure> measures() const override { return {{.name = "distance"}}; }

  DuelNet net;
  std::array<int64_t, 2> turns_taken{};
};

std::map<std::string, at::Tensor> copy_of(torch::nn::Module& network) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : train::persistent_tensors(network)) tensors[name] = tensor.detach().clone();
  return tensors;
}

void check_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) {
    INFO(name);
    CHECK(at::equal(tensor, b.at(name)));
  }
}

// Steps `first` to `last` of the duel.
void play(Duel& duel, train::TrainingStep& step, int64_t first, int64_t last) {
  const NumberLine data;
  const data::BatchPlan plan = data.plan(data::Part::kTrain, 0);
  for (int64_t i = first; i < last; ++i) {
    step({data.batch(data::Part::kTrain, 0, plan[static_cast<size_t>(i) % plan.size()])}, i, 0.05);
  }
  duel.network().eval();
}

// ---- Ranks that are threads
// ------------------------------------------------------------------------------------------

// What two threads give each other; each call waits for the other one.
class Meeting {
 public:
  template <typename Value>
  std::vector<Value> exchange(int64_t rank, const Value& value, std::array<Value, 2>& slots) {
    std::unique_lock lock(mutex_);
    slots[static_cast<size_t>(rank)] = value;
    wait(lock);
    std::vector<Value> both(slots.begin(), slots.end());
    wait(lock);  // nobody writes again before both have read
    return both;
  }
  std::array<std::vector<at::Tensor>, 2> tensors;
  std::array<int64_t, 2> numbers{};

 private:
  void wait(std::unique_lock<std::mutex>& lock) {
    const int64_t round = round_;
    if (++arrived_ == 2) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t arrived_ = 0, round_ = 0;
};

class ThreadWorld : public train::World {
 public:
  ThreadWorld(int64_t rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 2; }
  void sum(const std::vector<at::Tensor>& tensors) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> mine;
    for (const auto& tensor : tensors) mine.push_back(tensor.clone());
    const auto both = meeting_.exchange(rank_, mine, meeting_.tensors);
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(both[0][i] + both[1][i]);
  }
  int64_t agree(int64_t number) override {
    const auto both = meeting_.exchange(rank_, number, meeting_.numbers);
    return std::max(both[0], both[1]);
  }

 private:
  int64_t rank_;
  Meeting& meeting_;
};

// One epoch of the experiment on one rank; returns the losses of its steps.
std::vector<double> epoch_of(const train::ExperimentConfig& config, const data::DataModule& data, train::Module& module,
                             train::World& world, int64_t accumulate) {
  train::TrainingStep step(module, config.optimizer.as<train::OptimizerConfig>(),
                           {.seed = 3, .accumulate = accumulate, .clip_norm = 1.0}, {}, world);
  module.network().train();
  data::Loader loader(data, data::Part::kTrain, 0, {.rank = world.rank(), .ranks = world.size()});
  std::vector<double> losses;
  const int64_t steps = (loader.batches() + step.micro_batches() - 1) / step.micro_batches();
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<data::Batch> group;
    while (static_cast<int64_t>(group.size()) < accumulate) {
      auto batch = loader.next();
      if (!batch) break;
      group.push_back(std::move(*batch));
    }
    const train::StepResult result = step(group, i, 0.01);
    losses.push_back(result.terms.empty() ? 0 : result.terms[0].sum.item<double>());
  }
  return losses;
}

}  // namespace

TEST_CASE("two networks take turns, each with its own optimizer, and their play is resumed bit for bit") {
  const train::AdamConfig adam(/*is_decoupled=*/false);
  torch::manual_seed(1);
  Duel whole;
  train::TrainingStep step(whole, adam, {.seed = 5, .clip_norm = 1});
  whole.network().train();
  const auto before = copy_of(whole.network());
  play(whole, step, 0, 10);
  CHECK(whole.turns_taken == std::array<int64_t, 2>{20, 10});
  for (const auto& [name, tensor] : copy_of(whole.network())) CHECK_FALSE(at::equal(tensor, before.at(name)));
  const auto half = copy_of(whole.network());
  TempDir dir;
  train::save_safetensors(dir / "optimizer.safetensors", {step.optimizers().state(), {}});
  whole.network().train();
  play(whole, step, 10, 200);

  torch::manual_seed(2);
  Duel resumed;
  train::TrainingStep again(resumed, adam, {.seed = 5, .clip_norm = 1});
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : train::persistent_tensors(resumed.network())) {
      at::Tensor(tensor).copy_(half.at(name));
    }
  }
  train::load_optimizer(dir.path(), again.optimizers());
  resumed.network().train();
  play(resumed, again, 10, 200);
  check_equal(copy_of(whole.network()), copy_of(resumed.network()));

  const NumberLine data;
  const auto evaluation = train::evaluate_module(whole, data, data::Part::kValidation, at::kCPU);
  CHECK(evaluation.value("distance") < 1.0);  // it started about 4 away
}

TEST_CASE("a parameter in two turns or in none is refused") {
  struct Wrong : Duel {
    bool twice = false;
    std::vector<train::Turn> turns() override {
      auto all = Duel::turns();
      if (twice) all[1].groups[0].names.push_back("critic.bias");
      if (!twice) all[1].groups[0].names.pop_back();
      return all;
    }
  } wrong;
  CHECK_THROWS_WITH(train::Optimizers(wrong, train::SgdConfig()), ContainsSubstring("'maker.bias' is in no group"));
  wrong.twice = true;
  CHECK_THROWS_WITH(train::Optimizers(wrong, train::SgdConfig()), ContainsSubstring("'critic.bias'"));
}

TEST_CASE("two ranks do what one rank does that accumulates two batches, dropout included") {
  TinyExperiment experiment(150, {"model.dropout=0.3"});
  const auto config = experiment.config();
  const auto data = config.make_data();
  REQUIRE(data->plan(data::Part::kTrain, 0).size() % 2 == 1);  // the last step leaves one rank without a batch

  auto alone = config.make_model(data->spec());
  train::World world;
  const auto expected = epoch_of(config, *data, *alone, world, /*accumulate=*/2);

  auto first = config.make_model(data->spec()), second = config.make_model(data->spec());
  Meeting meeting;
  ThreadWorld first_world(0, meeting), second_world(1, meeting);
  std::vector<double> losses, other_losses;
  std::thread other([&] { other_losses = epoch_of(config, *data, *second, second_world, 1); });
  losses = epoch_of(config, *data, *first, first_world, 1);
  other.join();

  check_equal(copy_of(first->network()), copy_of(second->network()));
  REQUIRE(losses.size() == expected.size());
  for (size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == Approx(expected[i]).epsilon(1e-6));
  const auto a = copy_of(alone->network()), b = copy_of(first->network());
  for (const auto& [name, tensor] : a) {
    INFO(name);
    CHECK(fovea_tests::max_difference(tensor, b.at(name)) < 1e-5);
  }
}

TEST_CASE("frozen parameters and learning-rate factors, by prefix") {
  TinyExperiment experiment(60);
  const auto config = experiment.config({"optimizer.name=sgd", "optimizer.factors=[decoder.dense=0]"});
  const auto data = config.make_data();
  const auto module = config.make_model(data->spec());
  const data::Batch batch = data->batch(data::Part::kTrain, 0, {0, 1, 2});
  train::TrainingStep step(*module, config.optimizer.as<train::OptimizerConfig>(), {}, {"encoder"});
  const auto before = copy_of(module->network());
  step({batch}, 0, 0.1);
  for (const auto& [name, tensor] : copy_of(module->network())) {
    INFO(name);
    const bool stays = name.starts_with("encoder.") || name.starts_with("decoder.dense.");
    CHECK(at::equal(tensor, before.at(name)) == stays);
  }
  for (const auto& [name, tensor] : step.optimizers().state()) CHECK_FALSE(name.starts_with("encoder."));

  const auto refused = [&](const std::vector<std::string>& freeze, const std::vector<std::string>& factors) {
    train::SgdConfig sgd;
    sgd.factors = factors;
    return error_of([&] { train::TrainingStep(*module, sgd, {}, freeze); });
  };
  CHECK_THAT(refused({"encodr"}, {}), ContainsSubstring("train.freeze") && ContainsSubstring("did you mean 'encoder'"));
  const auto read_factors = [](const std::string& factors) {
    return error_of([&] {
      train::SgdConfig sgd;
      config::read(sgd, config::parse_yaml("factors: " + factors, "x.yaml"));
    });
  };
  CHECK_THAT(read_factors("[encoder]"), ContainsSubstring("prefix=factor"));
  CHECK_THAT(read_factors("[encoder=-1]"), ContainsSubstring("prefix=factor"));
  CHECK_THAT(read_factors("[encoder=1, encoder=0.5]"), ContainsSubstring("'encoder' is given twice"));
  CHECK_THAT(refused({"encoder", "decoder"}, {}), ContainsSubstring("every parameter is frozen"));
}
