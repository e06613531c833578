#include <spdlog/spdlog.h>

#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/shell.h"
#include "fovea/core/table.h"
#include "fovea/core/user_path.h"
#include "fovea/export/import_weights.h"
#include "fovea/export/package.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/run_directory.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct ImportOptions {
  std::vector<std::string> positionals;
  std::string output, map, assets;
  bool overwrite = false, quiet = false;
};

struct Imported {
  std::shared_ptr<const data::DataAssets> assets;
  std::unique_ptr<data::DataModule> data;  // where it was read
  std::string from;
  std::string obstacle;  // why the run cannot be trained on; empty where it can
};

// The vocabularies or class names: those given, or what training on the configuration's data would make.
Imported find_assets(const train::ExperimentConfig& config, const fs::path& given) {
  if (!given.empty()) {
    if (!fs::is_directory(given)) fail_usage("{}: there is no such directory", given.string());
    Imported imported{config.data_entry().load_assets(*config.data.section, given), nullptr, given.string(), ""};
    try {
      auto data = config.make_data();
      data->assets()->check_same(*imported.assets);
      imported.data = std::move(data);
    } catch (const Error& e) {
      imported.obstacle = e.what();
    }
    return imported;
  }
  auto data = config.make_data();
  auto assets = data->assets();
  return {std::move(assets), std::move(data), "the configuration's data", ""};
}

void save_run(const train::RunDirectory& run, const train::ExperimentConfig& config, train::Module& module,
              const Imported& imported) {
  const std::string yaml = config::dump(config);
  const train::Optimizers optimizers(module, config.optimizer.as<train::OptimizerConfig>(), config.train.freeze);
  train::TrainState state;
  if (imported.data != nullptr) train::note_data(state, *imported.data);
  std::optional<train::WeightAverage> average;  // of one set of weights: those
  if (config.train.ema_decay) average.emplace(module.network(), *config.train.ema_decay);
  run.replace(yaml, [&](train::CheckpointStore& store) {
    store.write(0, [&](const fs::path& checkpoint) {
      train::save_checkpoint(checkpoint, module, optimizers, state, yaml, *imported.assets,
                             average ? &*average : nullptr);
    });
    store.mark("last", 0);
  });
}

int import_run(const ImportOptions& options, const tasks::Registry& registry) {
  Arguments arguments = split_arguments(options.positionals);
  auto& words = arguments.words;
  arguments.check_words(registry);
  if (words.empty() || words.size() > 2) {
    fail_usage(
        "expected a configuration and a file of weights, as in: fovea import configs/transformer_tiny.yaml weights.pt, "
        "or one thing that `fovea export --format safetensors` wrote");
  }
  for (auto& word : words) word = user_path(word);
  std::optional<exports::Package> package;
  if (words.size() == 1) package.emplace(words[0]);
  const fs::path config_path = package ? package->config() : fs::path(words[0]);
  const fs::path weights_path = package ? package->weights() : fs::path(words[1]);
  const fs::path assets_path = !options.assets.empty() ? fs::path(options.assets)
                               : package               ? package->assets()
                                                       : fs::path();
  const train::ExperimentConfig config = train::load_experiment(
      registry, config_path, arguments.overrides, package ? config::Document::kRuns : config::Document::kUsers);
  const fs::path dir = run_directory(options.output, words[0]);
  using Existing = train::RunDirectory::Existing;
  const auto run = train::RunDirectory::claim(dir, options.overwrite ? Existing::kOverwrite : Existing::kRefuse);
  const exports::ForeignWeights weights = exports::load_foreign_weights(weights_path);
  const train::NameMap map = options.map.empty() ? train::NameMap() : train::NameMap::load(options.map);
  Imported imported = find_assets(config, assets_path);
  if (package && options.assets.empty()) imported.from = words[0];

  const auto module = config.make_model(imported.assets->spec());
  const auto notices = exports::import_weights(module->network(), weights, map, weights_path.string());
  save_run(run, config, *module, imported);

  if (!imported.obstacle.empty()) {
    spdlog::warn(
        "the run can be used, but not trained on with the data of its configuration: {}\n"
        "To train other data from these weights: fovea train CONFIG.yaml --init-from {}",
        imported.obstacle, shell_quoted(dir.string()));
  }
  if (options.quiet) return 0;
  for (const auto& notice : notices) std::cerr << for_errors(notice) << "\n";
  Table table({.width = output_width()});
  table.add_row({"weights", fmt::format("{}, {}", weights_path.string(), counted(weights.tensors.size(), "tensor"))});
  table.add_row({"model", fmt::format("{}, {}", config.model.name,
                                      counted(train::count_parameters(module->network()), "parameter"))});
  table.add_row({"assets", "from " + imported.from});
  table.add_row({"run", dir.string() + ", checkpoint step-0"});
  std::cout << table.str();
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto options = std::make_shared<ImportOptions>();
  auto* command = app.add_subcommand("import", "Make a run out of weights from elsewhere");
  add_arguments(*command, options->positionals, "{CONFIG.yaml WEIGHTS | EXPORT} [KEY=VALUE ...]",
                "CONFIG.yaml\tThe configuration of the model\n"
                "WEIGHTS\tWeights that fit it: a state_dict of PyTorch, or safetensors\n"
                "EXPORT\tWhat `fovea export` wrote as safetensors: configuration and weights in one\n"
                "KEY=VALUE\tSettings that replace those of the configuration");
  command
      ->add_option("-o,--output,--run-dir", options->output,
                   "The run to make (default runs/NAME, after the first argument)")
      ->type_name("DIR")
      ->transform(as_path());
  command->add_option("--map", options->map, "File of lines 'their.name = our.name'; * stands for any text, - for none")
      ->type_name("FILE")
      ->transform(as_path());
  command
      ->add_option("--assets", options->assets,
                   "Directory with the vocabularies, as in a checkpoint (default made from the configuration's data)")
      ->type_name("DIR")
      ->transform(as_path());
  command->add_flag("--overwrite", options->overwrite, "Replace a run that exists");
  add_quiet(*command, options->quiet);
  command->footer(
      "Examples:\n"
      "  fovea import configs/transformer_fra_eng.yaml d2l.pt -o runs/d2l\n"
      "  fovea import exported -o runs/again\n"
      "d2l.pt is what torch.save(net.state_dict(), 'd2l.pt') wrote. The run can be used, evaluated, exported, and "
      "trained further (fovea train --resume).");
  commands.emplace_back(command, [options, &registry] { return import_run(*options, registry); });
}

}  // namespace fovea::cli
