#include "fovea/export/package.h"

#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/partial.h"
#include "fovea/train/checkpoint.h"

namespace fovea::exports {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAssets = "assets/";
constexpr uint64_t kMaxAssetBytes = 64 << 20;

// A directory that is gone at the end.
struct Scratch {
  fs::path path;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

fs::path make_scratch() {
  std::string name = (fs::temp_directory_path() / "fovea-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail_errno("cannot make", name, errno);
  return name;
}

void export_file(const Exportable& model, const fs::path& path) {
  train::SafeTensors content = train::model_tensors(model.module);
  content.metadata[train::kConfigFile] = model.config_yaml;
  const Scratch scratch{make_scratch()};
  model.assets.save(scratch.path);
  for (const auto& entry : fs::directory_iterator(scratch.path)) {
    content.metadata[std::string(kAssets) + entry.path().filename().string()] = read_file(entry.path(), kMaxAssetBytes);
  }
  Partial partial(path);
  train::save_safetensors(partial.path(), content);
  partial.put_in_place();
}

void export_directory(const Exportable& model, const fs::path& path) {
  Partial partial(path);
  std::error_code error;
  fs::remove_all(partial.path(), error);
  fs::create_directory(partial.path(), error);
  if (error) fail("{}: cannot be made: {}", partial.path().string(), error.message());
  train::save_safetensors(partial.path() / train::kModelFile, train::model_tensors(model.module));
  write_file(partial.path() / train::kConfigFile, model.config_yaml);
  model.assets.save(partial.path());
  sync_path(partial.path());
  // The old one waits beside, and is back if the new one cannot take its place.
  const bool replaces = fs::exists(fs::symlink_status(path, error));
  Partial replaced(path.parent_path() / (path.filename().string() + ".replaced"));
  if (replaces) {
    fs::remove_all(replaced.path(), error);
    fs::rename(path, replaced.path(), error);
    if (error) fail("{}: cannot be replaced: {}", path.string(), error.message());
  }
  try {
    partial.put_in_place();
  } catch (...) {
    if (replaces) fs::rename(replaced.path(), path, error);
    throw;
  }
}

}  // namespace

ExportSummary export_package(const Exportable& model, const fs::path& path) {
  const bool is_file = path.extension() == ".safetensors";
  if (is_file) {
    export_file(model, path);
  } else {
    export_directory(model, path);
  }
  std::string files;
  if (!is_file) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    files = fmt::format("{}", fmt::join(names, ", "));
  }
  ExportSummary summary = {{"tensors", std::to_string(train::persistent_tensors(model.module.network()).size())}};
  summary.emplace_back(is_file ? "in its metadata" : "files", is_file ? "config.yaml and the data's assets" : files);
  summary.emplace_back("bytes", std::to_string(fs::file_size(is_file ? path : path / train::kModelFile)));
  return summary;
}

Package::Package(const fs::path& path) {
  if (fs::is_directory(path)) {
    dir_ = path;
    weights_ = path / train::kModelFile;
    for (const char* name : {train::kConfigFile, train::kModelFile}) {
      if (!fs::is_regular_file(path / name)) {
        fail_usage("{}: expected an exported directory, which holds {}; give a configuration and a file of weights",
                   path.string(), name);
      }
    }
    return;
  }
  if (path.extension() != ".safetensors") {
    fail_usage(
        "{}: expected what `fovea export --format safetensors` wrote, a directory or a file *.safetensors; of anything "
        "else give a configuration and a file of weights, as in: fovea import CONFIG.yaml weights.pt",
        path.string());
  }
  const train::SafeTensors content = train::load_safetensors(path);
  const auto config = content.metadata.find(train::kConfigFile);
  if (config == content.metadata.end()) {
    fail_usage(
        "{}: has no config.yaml in its metadata, so it is not an export of fovea's; give a configuration too, as in: "
        "fovea import CONFIG.yaml {}",
        path.string(), path.string());
  }
  dir_ = make_scratch();
  is_unpacked_ = true;
  weights_ = path;
  try {
    write_file(dir_ / train::kConfigFile, config->second);
    for (const auto& [key, text] : content.metadata) {
      if (!key.starts_with(kAssets)) continue;
      const std::string name = key.substr(kAssets.size());
      // It comes from a file of unknown origin and is about to name one.
      if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos || name == train::kConfigFile) {
        fail("{}: '{}' in its metadata is no name of an asset", path.string(), key);
      }
      write_file(dir_ / name, text);
    }
  } catch (...) {
    fs::remove_all(dir_);
    throw;
  }
}

Package::~Package() {
  std::error_code ignored;
  if (is_unpacked_) fs::remove_all(dir_, ignored);
}

}  // namespace fovea::exports
