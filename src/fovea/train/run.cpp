#include "fovea/train/run.h"

#include "fovea/core/error.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/run_directory.h"

namespace fovea::train {

LoadedRun load_run(const Entries& entries, const std::filesystem::path& run, const std::string& which,
                   const std::vector<std::string>& overrides) {
  for (const auto& argument : overrides) {
    if (!argument.starts_with("runtime.")) {
      fail_usage(
          "argument '{}': a trained model takes only the settings runtime.device, runtime.threads and runtime.matmul",
          argument);
    }
  }
  const auto checkpoint = RunDirectory::open(run).checkpoints().open(which);
  ExperimentConfig config = load_experiment(entries, checkpoint / kConfigFile, overrides);
  const at::Device device = config.runtime.set_up();
  auto assets = config.data_entry().load_assets(*config.data.section, checkpoint);
  auto module = config.make_model(assets->spec());
  load_weights(checkpoint, module->network(), config.train.ema_decay ? kAverageFile : kModelFile);
  module->network().to(device);
  module->network().eval();
  return {std::move(config), std::move(assets), std::move(module), device, checkpoint};
}

}  // namespace fovea::train
