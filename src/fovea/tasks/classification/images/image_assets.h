#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/resize.h"
#include "fovea/tasks/classification/assets.h"
#include "fovea/tasks/classification/images/spec.h"

namespace fovea::classification {

/// How pixels become numbers: (value / 255 - mean) / stddev, channel by channel.
struct Normalisation {
  std::vector<double> mean, stddev;  // (channels)
  bool operator==(const Normalisation&) const = default;
};

/// From an image to a model's input, and from its output to a name.
class ImageAssets : public ClassificationAssets {
 public:
  /// `spec` is of images as they reach the model. Throws Error where the numbers do not fit together.
  ImageAssets(const ImageSpec& spec, std::vector<std::string> class_names, Normalisation normalisation);
  /// Reads images.json out of a checkpoint. Throws Error naming the file for whatever save() does not write.
  static std::shared_ptr<const ImageAssets> load(const config::Section& section, const std::filesystem::path& dir);
  static std::shared_ptr<const ImageAssets> parse(std::string_view json, const std::string& file);

  const ImageSpec& spec() const override { return spec_; }
  void save(const std::filesystem::path& dir) const override;
  void check_same(const data::DataAssets& saved) const override;
  /// Reads a PNG or JPEG file and preprocesses it.
  at::Tensor read_example(const std::string& path) const override;
  data::Batch make_batch(const std::vector<at::Tensor>& examples) const override;
  std::optional<tasks::Report::Picture> picture(const at::Tensor& example) const override;
  exports::ScriptRecipe script(const Classifier& model) const override;
  std::string dump() const;  // what is saved

  int64_t channels() const { return spec_.channels; }
  int64_t height() const { return spec_.height; }
  int64_t width() const { return spec_.width; }
  int64_t num_classes() const { return spec_.num_classes; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  const std::vector<double>& mean() const { return normalisation_.mean; }
  const std::vector<double>& stddev() const { return normalisation_.stddev; }

  /// An image of any size, uint8 (channels, h, w), as the model takes it: resized as PIL does, then normalised,
  /// float32 (channels, height, width). Throws Error for another type or number of channels.
  at::Tensor preprocess(const at::Tensor& image) const;
  /// The second half of it, from pixels that have the right size: (channels, height, width) both.
  void normalise(const uint8_t* pixels, float* out) const;

 private:
  ImageSpec spec_;
  std::vector<std::string> class_names_;
  Normalisation normalisation_;
};

}  // namespace fovea::classification
