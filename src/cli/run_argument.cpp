#include "run_argument.h"

#include <algorithm>

#include "fovea/config/document.h"
#include "fovea/core/content.h"
#include "fovea/core/error.h"
#include "fovea/core/shell.h"
#include "fovea/core/user_path.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/manifest.h"
#include "fovea/train/run_directory.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBeginning = 256;  // bytes of a file that tell what it is

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// "best", "last", "step-12"
std::string checkpoint_name(const fs::path& path) {
  const fs::path full = fs::absolute(path).lexically_normal();
  return (full.has_filename() ? full : full.parent_path()).filename().string();
}

fs::path run_of_checkpoint(const fs::path& path) {
  fs::path dir = path.lexically_normal();
  if (!dir.has_filename()) dir = dir.parent_path();
  const fs::path above = dir.parent_path();  // runs/a/checkpoints
  return above.filename() == "checkpoints" ? above.parent_path() : fs::path();
}

void check_directory(const fs::path& path) {
  if (is_file(path / train::kManifestName)) {
    const fs::path run = run_of_checkpoint(path);
    fail_usage("{}: is a checkpoint, not a run; give the run and the checkpoint: {} --checkpoint {}", path.string(),
               run.empty() ? "RUN" : run.string(), checkpoint_name(path));
  }
  if (is_file(path / train::kModelFile) && is_file(path / train::kConfigFile)) {
    fail_usage("{}: is an export (safetensors), not a run; make a run of it: fovea import {}", path.string(),
               shell_quoted(path.string()));
  }
  if (path.filename() == "checkpoints" && is_file(path.parent_path() / train::kConfigFile)) {
    fail_usage("{}: holds the checkpoints of a run; give the run: {}", path.string(), path.parent_path().string());
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().filename().string().starts_with('.')) continue;  // one that is being made
    if (is_file(path / train::kConfigFile) || !is_file(entry.path() / train::kConfigFile)) continue;
    if (fs::is_directory(entry.path() / "checkpoints")) {
      fail_usage("{}: holds runs; give one of them, as in: {}", path.string(), entry.path().string());
    }
  }
}

// A YAML file that names a model or data. What is no YAML is none.
bool is_experiment(const fs::path& path) {
  if (path.extension() != ".yaml" && path.extension() != ".yml") return false;
  try {
    const config::Node document = config::load_yaml(path);
    return document.is_map() && (document.find("model") != nullptr || document.find("data") != nullptr);
  } catch (const Error&) {
    return false;
  }
}

void check_file(const fs::path& path) {
  const std::string bytes = read_beginning(path, kBeginning);
  const std::string extension = path.extension().string();
  const std::string name = path.string();
  if (extension == ".safetensors") {
    fail_usage("{}: is a file of weights, not a run; make a run of it: fovea import {}", name, shell_quoted(name));
  }
  if (bytes.starts_with("PK") || extension == ".pt" || extension == ".pth") {
    fail_usage(
        "{}: is a file of PyTorch, not a run; a TorchScript export is loaded with torch.jit.load, and a state_dict is "
        "made a run by: fovea import CONFIG.yaml {}",
        name, shell_quoted(name));
  }
  if (extension == ".yaml" || extension == ".yml") {
    const bool is_in_run =
        path.filename() == train::kConfigFile && fs::is_directory(path.parent_path() / "checkpoints");
    if (is_in_run) fail_usage("{}: is the configuration of a run; give the run: {}", name, path.parent_path().string());
    fail_usage("{}: is a configuration, not a run; train it first: fovea train {}", name, shell_quoted(name));
  }
  fail_usage("{}: expected the directory of a run, found a file: {}", name, describe_content(bytes));
}

}  // namespace

void check_run(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    check_directory(path);
  } else if (fs::is_regular_file(path, ignored)) {
    check_file(path);
  }
}

void check_config(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!is_file(path / train::kConfigFile))
      fail_usage("{}: expected a configuration, found a directory", path.string());
    fail_usage("{}: is a run, not a configuration; continue it: fovea train --resume {}", path.string(),
               shell_quoted(path.string()));
  }
  for (const char* extension : {".tsv", ".csv", ".txt", ".idx"}) {
    const fs::path unpacked = path.extension() == ".gz" ? path.stem() : path;
    if (unpacked.extension() != extension || !is_file(path)) continue;
    fail_usage("{}: is data, not a configuration; make a configuration for it: fovea init {}", path.string(),
               shell_quoted(path.string()));
  }
}

void check_data(const fs::path& path) {
  std::error_code ignored;
  const std::string name = path.string();
  if (!fs::exists(path, ignored)) fail_usage("{}: there is no such file", name);
  if (fs::is_directory(path, ignored)) {
    if (is_file(path / train::kConfigFile)) {
      fail_usage("{}: is a run, not data; continue it: fovea train --resume {}", name, shell_quoted(name));
    }
    return;  // images, perhaps
  }
  if (!fs::is_regular_file(path, ignored)) {
    fail_usage("{}: is a pipe or a device, which can be read once only; write it into a file first", name);
  }
  const std::string bytes = read_beginning(path, kBeginning);
  if (bytes.empty()) fail_usage("{}: expected data, found nothing (it is empty)", name);
  const std::string extension = path.extension().string();
  if (extension == ".safetensors" || extension == ".pt" || extension == ".pth") {
    fail_usage("{}: is a file of weights, not data; make a run of it: fovea import {}", name, shell_quoted(name));
  }
  if (is_experiment(path)) {
    fail_usage("{}: is a configuration, not data; train it: fovea train {}", name, shell_quoted(name));
  }
}

std::string only_run(const Arguments& arguments, const std::string& example, const tasks::Registry& registry) {
  const std::string run = arguments.only("the directory of a run, as in: " + example, registry);
  check_run(run);
  return run;
}

std::vector<fs::path> several_runs(const std::vector<std::string>& words, const std::string& example) {
  if (words.empty()) fail_usage("expected the directories of runs, as in: {}", example);
  std::vector<fs::path> runs;
  for (const auto& word : words) {
    runs.emplace_back(user_path(word));
    check_run(runs.back());
    train::RunDirectory::open(runs.back());
  }
  return runs;
}

}  // namespace fovea::cli
