#include "fovea/tasks/classification/images/file_images.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "fovea/config/checker.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/data/image_cache.h"

namespace fovea::classification {
namespace {

constexpr size_t kNamedFiles = 5;  // of damaged ones, in a message

// What is wrong with some files, the first few by name.
std::string name_some(const std::vector<std::string>& damage) {
  std::vector<std::string> named(damage.begin(),
                                 damage.begin() + static_cast<std::ptrdiff_t>(std::min(kNamedFiles, damage.size())));
  std::string text = fmt::format("{}", fmt::join(named, "\n  "));
  if (damage.size() > kNamedFiles) text += fmt::format("\n  and {} more", damage.size() - kNamedFiles);
  return text;
}

}  // namespace

void ImageTestConfig::fields(config::Fields& f) {
  f("size", size,
    "how many images to hold out and evaluate on, of each class its share: a fraction below 1, or a number of images; "
    "not used where the files have a part for that",
    config::at_least(0));
}

void FileImageConfig::common_fields(config::Fields& f) {
  f("channels", channels, "3 (red, green, blue), or 1: read as gray", config::range(1, 3));
  f("damaged", damaged, "what becomes of images that cannot be read: an error that names them, or left out");
  f("cache", cache,
    "folder of the decoded images, which are read instead of the files as long as those do not change; null: "
    "fovea/images in $XDG_CACHE_HOME or ~/.cache");
  f.section("test", test, "what the model is evaluated on");
  images.fields(f);
}

void FileImageConfig::check(const config::Checker& c) const {
  if (channels == 2) c.fail("channels", "expected 1 or 3, found 2");
  images.check(c);
}

void ImageFolderConfig::fields(config::Fields& f) {
  f("path", path,
    "folder with a folder for each class, or with train, val and test of such; PNG and JPEG images, whatever lies "
    "deeper included",
    config::required);
  common_fields(f);
}

void ImageTableConfig::fields(config::Fields& f) {
  f("path", path,
    "CSV or TSV of paths, relative to it, and labels; perhaps a column that says train, validation or test",
    config::required);
  f("image_column", image_column, "the column of paths; null: path, file, filename, image ...");
  f("label_column", label_column, "the column of classes; null: label, class, category, target");
  f("part_column", part_column,
    "the column of train, validation, test; null: split, part, subset, set if there is one");
  common_fields(f);
}

ImageParts read_listed_images(const FileImageConfig& config, const ImageListing& listing) {
  data::ImageCacheRequest request{.files = {},
                                  .channels = config.channels,
                                  .size = {},
                                  .folder = config.cache.value_or(data::default_image_cache()),
                                  .name = std::filesystem::absolute(config.path).lexically_normal().string()};
  if (!config.images.resize.empty()) request.size = {config.images.resize[0], config.images.resize[1]};
  std::vector<int64_t> labels, lines;
  std::array<std::vector<int64_t>, 3> rows;  // of each part
  for (size_t part = 0; part < rows.size(); ++part) {
    const LabelledFiles& listed = listing.parts[part];
    for (size_t i = 0; i < listed.files.size(); ++i) {
      rows[part].push_back(static_cast<int64_t>(request.files.size()));
      request.files.push_back(listed.files[i]);
      labels.push_back(listed.labels[i]);
      if (!listed.lines.empty()) lines.push_back(listed.lines[i]);
    }
  }
  if (request.files.empty()) fail_usage("{}: expected images, found none", config.path.string());

  const data::CachedImages read = data::read_images_cached(request);
  std::vector<std::string> damage;
  for (size_t i = 0; i < read.damage.size(); ++i) {
    if (read.damage[i].empty()) continue;
    damage.push_back(lines.empty() ? read.damage[i]
                                   : fmt::format("{}:{}: {}", config.path.string(), lines[i], read.damage[i]));
  }
  ImageParts parts;
  parts.warnings = listing.warnings;
  if (!damage.empty()) {
    const std::string text = fmt::format("{} of {} cannot be read", damage.size(), counted(labels.size(), "image"));
    if (config.damaged == DamagedImages::kRefuse) {
      fail_usage("{}:\n  {}\nrepair or remove {}, or leave {} out with data.damaged=skip", text, name_some(damage),
                 damage.size() == 1 ? "it" : "them", damage.size() == 1 ? "it" : "them");
    }
    parts.warnings.push_back(fmt::format("{}; left out:\n  {}", text, name_some(damage)));
  }
  const ImageSet all{
      read.pixels, at::tensor(labels, at::kLong), {}, std::make_shared<std::vector<uint64_t>>(read.hashes)};
  const auto take = [&](data::Part part) {
    std::vector<int64_t> whole;
    for (const int64_t row : rows[static_cast<size_t>(part)]) {
      if (read.damage[static_cast<size_t>(row)].empty()) whole.push_back(row);
    }
    return whole.empty() ? ImageSet{} : all.take(whole);
  };
  parts.classes = listing.classes;
  parts.train = take(data::Part::kTrain);
  parts.validation = take(data::Part::kValidation);
  parts.test = take(data::Part::kTest);
  parts.by_class = true;
  parts.test_size = config.test.size;
  parts.facts = {{"cache", read.note}};
  return parts;
}

}  // namespace fovea::classification
