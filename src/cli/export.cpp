#include <chrono>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/counted.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/output.h"
#include "fovea/core/progress.h"
#include "fovea/core/table.h"
#include "fovea/export/package.h"
#include "fovea/export/torchscript.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/manifest.h"
#include "fovea/train/run.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::vector<std::string> positionals;
  std::string output, format, checkpoint;  // format: empty: by the name
  bool overwrite = false, quiet = false;
};

// The name says what is written; a name of another format would mislead whoever gets the file.
void check_extension(const ExportOptions& options) {
  const std::string extension = fs::path(options.output).extension().string();
  const bool is_torchscript = extension == ".pt" || extension == ".pth" || extension == ".ts";
  const bool is_safetensors = extension == ".safetensors";
  if (options.format == "torchscript" && is_safetensors) {
    fail_usage("--output {}: the format is torchscript; name it NAME.pt", options.output);
  }
  if (options.format == "safetensors" && is_torchscript) {
    fail_usage("--output {}: the format is safetensors; name it NAME.safetensors, or give a directory", options.output);
  }
  if (options.format.empty() && !extension.empty() && !is_torchscript && !is_safetensors) {
    fail_usage(
        "--output {}: {} is no format that is written; expected NAME.pt (TorchScript) or NAME.safetensors, or else "
        "--format torchscript or --format safetensors",
        options.output, extension);
  }
}

// Only what an export wrote is replaced: a directory must look like one. Returns where to write.
fs::path find_place(const ExportOptions& options, const fs::path& run) {
  const bool is_directory = options.format == "safetensors" && fs::path(options.output).extension() != ".safetensors";
  fs::path place = check_output({.path = options.output,
                                 .option = "--output",
                                 .overwrite = options.overwrite,
                                 .form = is_directory ? Output::Form::kDirectory : Output::Form::kFile,
                                 .sources = {run / "checkpoints", run / train::kConfigFile}});
  if (is_directory && fs::exists(place) && !fs::is_empty(place) &&
      (!fs::exists(place / train::kModelFile) || fs::exists(place / "checkpoints") ||
       fs::exists(place / train::kManifestName))) {
    fail_usage("--output {}: holds something else than an export, so it is not overwritten", options.output);
  }
  return place;
}

int export_run(ExportOptions options, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(options.positionals);
  const std::string run_dir = only_run(arguments, "fovea export runs/quickstart -o model.pt", registry);
  if (options.output.empty()) fail_usage("--output: expected a name for what is exported");
  check_extension(options);
  if (options.format.empty()) {
    options.format = fs::path(options.output).extension() == ".safetensors" ? "safetensors" : "torchscript";
  }
  if (options.format != "torchscript" && options.format != "safetensors") {
    fail_usage("--format: expected torchscript or safetensors, got '{}'", options.format);
  }
  const fs::path output = find_place(options, run_dir);

  const auto start = std::chrono::steady_clock::now();
  // An export is of the CPU, wherever the run was trained; whoever loads it moves it.
  auto overrides = arguments.overrides;
  overrides.push_back("runtime.device=cpu");
  const train::LoadedRun run = train::load_run(registry, run_dir, options.checkpoint, overrides);
  // The config as the run has it, without what was told this command.
  const exports::Exportable model{*run.module, *run.assets, run.config.model.name, run.config_yaml,
                                  run.checkpoint.filename().string()};
  Progress progress({.quiet = options.quiet});
  const auto say = [&](const std::string& text) { progress.line(text); };
  exports::ExportSummary summary;
  if (options.format == "torchscript") {
    const tasks::Task& task = registry.task_of(run.assets->spec());
    summary = exports::export_torchscript(model, task.script(*run.module, *run.assets), output, say);
  } else {
    summary = exports::export_package(model, output);
  }
  progress.finish();
  if (options.quiet) return 0;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Table table({.width = output_width()});
  table.add_row({"run", run_dir + ", " + model.checkpoint});
  table.add_row({"model", fmt::format("{}, {}", model.name,
                                      counted(train::count_parameters(run.module->network()), "parameter"))});
  table.add_row({"format", options.format});
  for (const auto& [name, text] : summary) table.add_row({name, text});
  table.add_row({"written", fmt::format("{} in {:.1f} s", options.output, seconds.count())});
  std::cout << table.str();
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto options = std::make_shared<ExportOptions>();
  auto* command = app.add_subcommand("export", "Write a trained model for use without this program");
  add_arguments(*command, options->positionals, "RUN", "The directory of a run: runs/NAME");
  command
      ->add_option("-o,--output", options->output,
                   "What to write: NAME.pt for TorchScript; NAME.safetensors, or a directory, for safetensors")
      ->type_name("NAME")
      ->transform(as_path())
      ->required();
  command->add_option(
      "--format", options->format,
      "torchscript: a file that torch alone can run; safetensors: weights, config and vocabulary (default by the "
      "name: NAME.safetensors is safetensors, else torchscript)");
  add_checkpoint(*command, options->checkpoint);
  command->add_flag("--overwrite", options->overwrite, "Replace an export that exists");
  add_quiet(*command, options->quiet);
  command->footer(
      "Examples:\n"
      "  fovea export runs/quickstart -o model.pt\n"
      "  fovea export runs/quickstart -o exported --format safetensors\n"
      "  fovea export runs/quickstart -o model.safetensors");
  commands.emplace_back(command, [options, &registry] { return export_run(*options, registry); });
}

}  // namespace fovea::cli
