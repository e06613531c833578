#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/tasks/classification/images/images.h"

namespace fovea::classification {

/// `data: {name: fashion_mnist}` (d2l 4.2; Xiao, Rasul and Vollgraf 2017): 60000 images to train on and 10000 to test
/// on, of 28 x 28 gray pixels, in ten classes.
struct FashionMnistConfig : config::Section {
  std::optional<std::filesystem::path> path;
  ImageOptions images;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override { images.check(c); }
};

/// `data: {name: idx_images}`: any labelled images in IDX files.
struct IdxImagesConfig : config::Section {
  std::filesystem::path train_images, train_labels;
  std::optional<std::filesystem::path> test_images, test_labels;
  std::vector<std::string> classes;
  ImageOptions images;
  int64_t num_classes() const { return static_cast<int64_t>(classes.size()); }
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// The names of Fashion-MNIST's classes, as d2l has them.
const std::vector<std::string>& fashion_mnist_classes();

struct FashionMnistFiles {
  ImageFiles train, test;
};

/// Fashion-MNIST's four files, packed or not: in `path` if given; else where Debian's package dataset-fashion-mnist
/// puts them, else in data/fashion-mnist of the working directory. Throws Error (kUsage) saying where was looked, what
/// is missing, and how to get it. With `only_test` the files to train on may be missing.
FashionMnistFiles find_fashion_mnist(const std::optional<std::filesystem::path>& path, bool only_test = false);

class FashionMnist : public ImageData {
 public:
  FashionMnist(const FashionMnistConfig& config, uint64_t seed, std::shared_ptr<const ImageAssets> assets);
  /// The test part needs its own two files only.
  static std::unique_ptr<ImageData> read_part(const FashionMnistConfig& config, uint64_t seed,
                                              std::shared_ptr<const ImageAssets> assets, data::Part part);

 private:
  FashionMnist(const FashionMnistConfig& config, const FashionMnistFiles& files, uint64_t seed,
               std::shared_ptr<const ImageAssets> assets);
};

class IdxImages : public ImageData {
 public:
  IdxImages(const IdxImagesConfig& config, uint64_t seed, std::shared_ptr<const ImageAssets> assets);
  /// The test part needs its own two files only.
  static std::unique_ptr<ImageData> read_part(const IdxImagesConfig& config, uint64_t seed,
                                              std::shared_ptr<const ImageAssets> assets, data::Part part);
};

}  // namespace fovea::classification
