#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/augment.h"
#include "fovea/data/data_module.h"
#include "fovea/tasks/classification/images/image_assets.h"
#include "fovea/tasks/classification/images/image_set.h"

namespace fovea::classification {

/// `data.validation` of images.
struct ImageValidationConfig : config::Section {
  double size = 0.1;
  void fields(config::Fields& f) override;
};

/// What every data set of images is told, whatever files it is read from: a part of its section.
struct ImageOptions {
  std::vector<int64_t> resize;
  ImageValidationConfig validation;
  std::optional<int64_t> train_size;
  int64_t batch_size = 64;
  std::optional<int64_t> eval_batch_size;
  std::vector<double> mean = {0.0}, stddev = {1.0};
  data::AugmentConfig augment;

  void fields(config::Fields& f);
  void check(const config::Checker& c) const;
};

/// What the files of a data set give, before anything is held out.
struct ImageParts {
  std::vector<std::string> classes;
  ImageSet train;
  ImageSet validation = {}, test = {};  // may be empty; validation is held out of train then
  bool by_class = false;                // hold out of each class its share, and a test part too where there is none
  double test_size = 0;                 // of that, as data.test.size has it
  std::vector<std::pair<std::string, std::string>> facts = {};  // for the start-up table
  std::vector<std::string> warnings = {};
};

/// Labelled images, kept as bytes; a batch of them is resized, augmented (of the training part only) and normalised
/// when it is made.
class ImageData : public data::DataModule {
 public:
  /// Splits `train` into the parts to train on and to validate on; `test` may be empty. With `assets`, size,
  /// normalisation and class names are theirs. Throws Error where nothing is left to train on, or where train and test
  /// images differ in size.
  ImageData(const ImageOptions& options, std::vector<std::string> class_names, uint64_t seed, const ImageSet& train,
            ImageSet test, std::shared_ptr<const ImageAssets> assets = nullptr);
  /// The same of whatever parts there are.
  ImageData(const ImageOptions& options, uint64_t seed, ImageParts parts,
            std::shared_ptr<const ImageAssets> assets = nullptr);
  /// Images to evaluate a model on: a module with a test part only.
  ImageData(const ImageOptions& options, ImageSet test, std::shared_ptr<const ImageAssets> assets);

  std::shared_ptr<const data::DataAssets> assets() const override { return assets_; }
  const ImageAssets& image_assets() const { return *assets_; }
  int64_t size(data::Part part) const override { return of(part).count(); }
  data::BatchPlan plan(data::Part part, int64_t epoch) const override;
  /// See ImageBatch. "mixed_label" and "share" are there in the training part, with mixup or
  /// CutMix. The number of an example that is in a batch several times is its own plus a multiple of the size of the
  /// part.
  data::Batch batch(data::Part part, int64_t epoch, const std::vector<int64_t>& examples) const override;
  const char* unit() const override { return "images"; }
  uint64_t part_fingerprint(data::Part part) const override;
  uint64_t fingerprint() const override { return fingerprint_; }
  std::vector<std::pair<std::string, std::string>> describe() const override;
  std::vector<std::string> warnings() const override;

  /// int64 (size(part)): what the examples are.
  at::Tensor labels(data::Part part) const { return of(part).labels; }
  /// An example as it stands in its file, uint8 (channels, h, w).
  at::Tensor image(data::Part part, int64_t example) const { return of(part).images[of(part).row(example)]; }

 private:
  void split(const ImageParts& parts, uint64_t seed);
  void make_resizer(const ImageSet& like);
  // The model's input of one example, changed as drawn in training.
  class Renderer;
  void mix(data::Batch& batch, int64_t epoch, const std::vector<int64_t>& examples) const;
  const ImageSet& of(data::Part part) const { return parts_[static_cast<size_t>(part)]; }

  ImageOptions options_;
  uint64_t seed_;
  uint64_t fingerprint_ = 0;
  std::array<ImageSet, 3> parts_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<std::string> warnings_;
  std::shared_ptr<const ImageAssets> assets_;
  std::optional<data::Resizer> resizer_;  // from the images' size to the model's; nothing where they are equal
};

}  // namespace fovea::classification
