#include "fovea/train/run.h"

#include <algorithm>

#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/train/assembly.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/run_directory.h"

namespace fovea::train {
namespace {

void check_overrides(const ExperimentConfig& saved, const std::vector<std::string>& overrides) {
  const std::vector<std::string> paths = data_path_keys(saved);
  for (const auto& argument : overrides) {
    const std::string key = argument.substr(0, argument.find('='));
    if (key.starts_with("runtime.") || std::find(paths.begin(), paths.end(), key) != paths.end()) continue;
    fail_usage(
        "argument '{}': a trained model can only be told runtime.device, runtime.threads and runtime.matmul, and where "
        "its data lie",
        argument);
  }
}

}  // namespace

LoadedRun load_run(const Entries& entries, const std::filesystem::path& run, const std::string& which,
                   const std::vector<std::string>& overrides) {
  return RunDirectory::open(run).checkpoints().read(which, [&](const std::filesystem::path& checkpoint) -> LoadedRun {
    const ExperimentConfig saved = load_experiment(entries, checkpoint / kConfigFile, {}, config::Document::kRuns);
    check_overrides(saved, overrides);
    ExperimentConfig config = load_experiment(entries, checkpoint / kConfigFile, overrides, config::Document::kRuns);
    const at::Device device = config.runtime.set_up();
    auto assets = config.data_entry().load_assets(*config.data.section, checkpoint);
    auto module = config.make_model(assets->spec());
    load_weights(checkpoint, module->network());
    module->network().to(device);
    module->network().eval();
    return {std::move(config),  std::move(assets),
            std::move(module),  device,
            checkpoint,         load_state(checkpoint / kStateFile),
            config::dump(saved)};
  });
}

}  // namespace fovea::train
