#pragma once

#include <filesystem>
#include <memory>

#include "fovea/export/torchscript.h"

namespace fovea::exports {

/// Weights with all that is needed to use them, in safetensors: what `fovea import` makes a run of again.
///   a directory                 model.safetensors, config.yaml and the data's assets, as in a checkpoint
///   a file *.safetensors        the weights; config.yaml and the assets are in its metadata, as "config.yaml" and
///                               "assets/<name>"
/// The same model gives the same bytes.
ExportSummary export_package(const Exportable& model, const std::filesystem::path& path);

/// A package in either form, laid out as files.
class Package {
 public:
  /// Throws Error naming what is missing, or what the file is instead.
  explicit Package(const std::filesystem::path& path);
  ~Package();
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  const std::filesystem::path& weights() const { return weights_; }
  std::filesystem::path config() const { return dir_ / "config.yaml"; }
  const std::filesystem::path& assets() const { return dir_; }

 private:
  std::filesystem::path dir_, weights_;
  bool is_unpacked_ = false;
};

}  // namespace fovea::exports
