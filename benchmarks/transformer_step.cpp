// Whole training steps of configs/transformer_fra_eng.yaml, the counterpart of transformer_step.py: for each line on
// stdin (with --interleave) or --rounds times, some steps, then one line of JSON with the speed. A driver alternates
// the two programs, so that both meet the same machine: see compare_step.

#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/nn/random.h"
#include "fovea/train/runtime.h"
#include "fovea/train/step.h"
#include "models/models.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string config = "configs/transformer_fra_eng.yaml";
  std::vector<std::string> overrides;
  int64_t steps = 20, rounds = 5, warmup = 10;
  bool interleave = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (argument == "--config")
      options.config = value();
    else if (argument == "--path")
      options.overrides.push_back("data.path=" + value());
    else if (argument == "--threads")
      options.overrides.push_back("runtime.threads=" + value());
    else if (argument == "--steps")
      options.steps = std::stoll(value());
    else if (argument == "--rounds")
      options.rounds = std::stoll(value());
    else if (argument == "--warmup")
      options.warmup = std::stoll(value());
    else if (argument == "--interleave")
      options.interleave = true;
    else if (argument.find('=') != std::string::npos)
      options.overrides.push_back(argument);
    else
      throw std::runtime_error("unknown argument " + argument);
  }
  return options;
}

// Endless batches, epoch after epoch, and the steps on them as the trainer makes them.
class Stepper {
 public:
  explicit Stepper(const Options& options)
      : config_(fovea::train::load_experiment(fovea::models::registry(), options.config, options.overrides)) {
    device_ = config_.runtime.set_up();
    data_ = config_.make_data();
    module_ = config_.make_model(data_->spec());
    module_->network().to(device_);
    module_->network().train();
    step_.emplace(*module_, config_.optimizer.as<fovea::train::OptimizerConfig>(),
                  fovea::train::StepOptions{.clip_norm = config_.train.clip_norm});
  }

  int64_t step() {
    if (next_ == plan_.size()) {
      plan_ = data_->plan(fovea::data::Part::kTrain, epoch_++);
      next_ = 0;
    }
    const fovea::data::Batch batch = data_->batch(fovea::data::Part::kTrain, 0, plan_[next_++]).to(device_);
    (*step_)({batch}, steps_++, config_.optimizer.as<fovea::train::OptimizerConfig>().learning_rate);
    return batch.items;
  }

 private:
  fovea::train::ExperimentConfig config_;
  at::Device device_ = at::kCPU;
  std::unique_ptr<fovea::data::DataModule> data_;
  std::unique_ptr<fovea::train::Module> module_;
  std::optional<fovea::train::TrainingStep> step_;
  fovea::data::BatchPlan plan_;
  size_t next_ = 0;
  int64_t epoch_ = 0, steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    Stepper stepper(options);
    for (int64_t i = 0; i < options.warmup; ++i) stepper.step();
    std::string line;
    for (int64_t round = 0; round < options.rounds; ++round) {
      if (options.interleave && !std::getline(std::cin, line)) break;
      int64_t tokens = 0;
      const auto start = Clock::now();
      for (int64_t i = 0; i < options.steps; ++i) tokens += stepper.step();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      std::cout << nlohmann::ordered_json{{"variant", "fovea"},
                                          {"ms_per_step", 1e3 * seconds / static_cast<double>(options.steps)},
                                          {"tokens_per_second", static_cast<double>(tokens) / seconds}}
                       .dump()
                << std::endl;
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
