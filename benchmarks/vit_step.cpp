// Whole training steps of a vision Transformer on images made up, the counterpart of vit_step.py: for each line on
// stdin (with --interleave) or --rounds times, some steps, then one line of JSON with the speed. A driver alternates
// the programs, so that all meet the same machine: see compare_vit_step.

#include <torch/torch.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/nn/random.h"
#include "fovea/train/runtime.h"
#include "fovea/train/step.h"
#include "models/vit.h"

namespace {

using Clock = std::chrono::steady_clock;

// The same names and defaults as vit_step.py's.
struct Options {
  fovea::models::ViTConfig model;
  int64_t image = 96, batch = 128, threads = 2, steps = 4, rounds = 5, warmup = 2;
  bool interleave = false;
  std::string optimizer = "sgd";
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto text = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    const auto number = [&] { return std::stoll(text()); };
    if (argument == "--image")
      o.image = number();
    else if (argument == "--patch")
      o.model.net.image.patch_height = number();
    else if (argument == "--hiddens")
      o.model.net.block.num_hiddens = number();
    else if (argument == "--mlp")
      o.model.net.block.mlp_num_hiddens = number();
    else if (argument == "--heads")
      o.model.net.block.num_heads = number();
    else if (argument == "--blks")
      o.model.net.num_blks = number();
    else if (argument == "--dropout")
      o.model.net.emb_dropout = o.model.net.block.dropout = std::stod(text());
    else if (argument == "--optimizer")
      o.optimizer = text();
    else if (argument == "--batch")
      o.batch = number();
    else if (argument == "--threads")
      o.threads = number();
    else if (argument == "--steps")
      o.steps = number();
    else if (argument == "--rounds")
      o.rounds = number();
    else if (argument == "--warmup")
      o.warmup = number();
    else if (argument == "--interleave")
      o.interleave = true;
    else
      throw std::runtime_error("unknown argument " + argument);
  }
  return o;
}

// Steps as the trainer makes them.
class Stepper {
 public:
  explicit Stepper(const Options& o) : model_(o.model, fovea::classification::ImageSpec(1, o.image, o.image, 10)) {
    batch_.tensors = {{"image", at::randn({o.batch, 1, o.image, o.image})},
                      {"label", at::randint(10, {o.batch}, at::kLong)}};
    batch_.examples = batch_.items = o.batch;
    model_.network().train();
    const fovea::train::StepOptions options{.clip_norm = 1.0};
    if (o.optimizer == "sgd") {
      step_.emplace(model_, fovea::train::SgdConfig(), options);
    } else {
      step_.emplace(model_, fovea::train::AdamConfig(/*is_decoupled=*/true), options);
    }
  }

  void step() { (*step_)({batch_}, steps_++, /*learning_rate=*/1e-3); }

 private:
  fovea::models::ViT model_;
  fovea::data::Batch batch_;
  std::optional<fovea::train::TrainingStep> step_;
  int64_t steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    fovea::train::set_up_runtime(fovea::train::DeviceChoice::kCpu, options.threads);
    Stepper stepper(options);
    std::string line;
    for (int64_t round = 0; round < options.rounds; ++round) {
      if (options.interleave && !std::getline(std::cin, line)) break;
      for (int64_t i = 0; round == 0 && i < options.warmup; ++i) stepper.step();
      const auto start = Clock::now();
      for (int64_t i = 0; i < options.steps; ++i) stepper.step();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      std::cout << nlohmann::ordered_json{{"variant", "fovea"},
                                          {"ms_per_step", 1e3 * seconds / static_cast<double>(options.steps)}}
                       .dump()
                << std::endl;
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
