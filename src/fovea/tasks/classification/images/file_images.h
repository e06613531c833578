#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "fovea/core/enum_names.h"
#include "fovea/tasks/classification/images/image_listing.h"
#include "fovea/tasks/classification/images/images.h"

namespace fovea::classification {

/// What becomes of image files that cannot be read.
enum class DamagedImages { kRefuse, kSkip };
constexpr auto enum_names(DamagedImages) {
  return std::to_array<EnumName<DamagedImages>>({{DamagedImages::kRefuse, "refuse"}, {DamagedImages::kSkip, "skip"}});
}

struct ImageTestConfig : config::Section {
  double size = 0.1;
  void fields(config::Fields& f) override;
};

/// What data sets of image files have in common.
struct FileImageConfig : config::Section {
  std::filesystem::path path;
  int64_t channels = 3;
  DamagedImages damaged = DamagedImages::kRefuse;
  std::optional<std::filesystem::path> cache;
  ImageTestConfig test;
  ImageOptions images;
  void check(const config::Checker& c) const override;

 protected:
  void common_fields(config::Fields& f);
};

/// `data: {name: image_folder}`: see list_image_folder().
struct ImageFolderConfig : FileImageConfig {
  void fields(config::Fields& f) override;
  ImageListing list(const KnownClasses& known) const { return list_image_folder(path, known); }
};

/// `data: {name: image_table}`: see list_image_table().
struct ImageTableConfig : FileImageConfig {
  std::optional<std::string> image_column, label_column, part_column;
  void fields(config::Fields& f) override;
  ImageListing list(const KnownClasses& known) const {
    return list_image_table(path, {.image = image_column, .label = label_column, .part = part_column}, known);
  }
};

/// Decodes the listed files of all parts through one cache: see data::read_images_cached(). Throws a usage Error naming
/// damaged files unless they are skipped; then there is a warning that names them.
ImageParts read_listed_images(const FileImageConfig& config, const ImageListing& listing);

/// Labelled image files. `Config` lists them.
template <typename Config>
class FileImages : public ImageData {
 public:
  FileImages(const Config& config, uint64_t seed, std::shared_ptr<const ImageAssets> assets)
      : ImageData(config.images, seed, read_listed_images(config, listing(config, assets)), assets) {}
  /// Where only a test part is there, it can be evaluated on.
  static std::unique_ptr<ImageData> read_part(const Config& config, uint64_t seed,
                                              std::shared_ptr<const ImageAssets> assets, data::Part part) {
    const ImageListing listed = listing(config, assets);
    const bool is_alone = part == data::Part::kTest && listed.of(data::Part::kTrain).files.empty();
    if (!is_alone) return std::make_unique<FileImages>(config, seed, std::move(assets));
    return std::make_unique<ImageData>(config.images, read_listed_images(config, listed).test, std::move(assets));
  }

 private:
  static ImageListing listing(const Config& config, const std::shared_ptr<const ImageAssets>& assets) {
    return config.list(assets != nullptr ? KnownClasses(assets->class_names()) : KnownClasses());
  }
};

using ImageFolder = FileImages<ImageFolderConfig>;
using ImageTable = FileImages<ImageTableConfig>;

}  // namespace fovea::classification
