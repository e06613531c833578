#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/tasks/classification/images/images.h"

namespace fovea::classification {

/// `data: {name: cifar10}` (Krizhevsky 2009): 50000 images to train on and 10000 to test on, of 3 x 32 x 32 pixels, in
/// ten classes; the binary version.
struct Cifar10Config : config::Section {
  std::filesystem::path path;
  ImageOptions images;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override { images.check(c); }
  ImageParts read(bool only_test) const;
};

enum class CifarLabels { kFine, kCoarse };
constexpr auto enum_names(CifarLabels) {
  return std::to_array<EnumName<CifarLabels>>({{CifarLabels::kFine, "fine"}, {CifarLabels::kCoarse, "coarse"}});
}

/// `data: {name: cifar100}`: as many images, in a hundred classes or twenty.
struct Cifar100Config : config::Section {
  std::filesystem::path path;
  CifarLabels labels = CifarLabels::kFine;
  ImageOptions images;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override { images.check(c); }
  ImageParts read(bool only_test) const;
};

/// The images of a configuration whose read() gives them: the files of both parts, or of the test part alone. CIFAR-10
/// has data_batch_1.bin to data_batch_5.bin and test_batch.bin, CIFAR-100 train.bin and test.bin. They lie in the
/// folder, or in the one that the published archive makes in it; plain or gzip. Class names are those of
/// batches.meta.txt, fine_label_names.txt or coarse_label_names.txt. Throws a usage Error naming the file for one that
/// is missing, is no whole number of images, or holds a label that no class has.
template <typename Config>
class CifarImages : public ImageData {
 public:
  CifarImages(const Config& config, uint64_t seed, std::shared_ptr<const ImageAssets> assets)
      : ImageData(config.images, seed, config.read(/*only_test=*/false), std::move(assets)) {}
  static std::unique_ptr<ImageData> read_part(const Config& config, uint64_t seed,
                                              std::shared_ptr<const ImageAssets> assets, data::Part part) {
    if (part != data::Part::kTest) return std::make_unique<CifarImages>(config, seed, std::move(assets));
    return std::make_unique<ImageData>(config.images, config.read(/*only_test=*/true).test, std::move(assets));
  }
};

using Cifar10 = CifarImages<Cifar10Config>;
using Cifar100 = CifarImages<Cifar100Config>;

}  // namespace fovea::classification
