#include "fovea/tasks/classification/images/image_datasets.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/config/checker.h"
#include "fovea/core/error.h"

namespace fovea::classification {
namespace fs = std::filesystem;
namespace {

constexpr const char* kDebianPath = "/usr/share/datasets/fashion-mnist";
constexpr int64_t kFashionMnistClasses = 10;
constexpr const char* kFetchedPath = "data/fashion-mnist";

// The file `stem` or `stem`.gz in a folder; empty if there is neither.
fs::path find_file(const fs::path& folder, const std::string& stem) {
  std::error_code ignored;
  for (const std::string& name : {stem + ".gz", stem}) {
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return {};
}

}  // namespace

void FashionMnistConfig::fields(config::Fields& f) {
  f("path", path,
    "folder of the four files (train-images-idx3-ubyte.gz, ...); null: that of the Debian package "
    "dataset-fashion-mnist, else data/fashion-mnist, where scripts/fetch-data puts them");
  images.fields(f);
}

void IdxImagesConfig::fields(config::Fields& f) {
  f("train_images", train_images, "IDX file of images, plain or gzip", config::required);
  f("train_labels", train_labels, "IDX file of their labels, from 0 on", config::required);
  f("test_images", test_images, "IDX file of the images to test on; needs test_labels");
  f("test_labels", test_labels, "IDX file of their labels");
  f("classes", classes, "the names of the classes, in the order of the labels", config::required,
    config::at_least_items(1));
  images.fields(f);
}

void IdxImagesConfig::check(const config::Checker& c) const {
  images.check(c);
  if (test_images && !test_labels) c.fail("test_images", "needs test_labels, which is not given");
  if (test_labels && !test_images) c.fail("test_labels", "needs test_images, which is not given");
  // Names are told apart, and printed between tabs, a line each.
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].empty() || classes[i].find_first_of("\t\n\r") != std::string::npos) {
      c.fail("classes", "a name may not be empty or hold tabs or line ends: that of label {} does", i);
    }
    const auto first = std::find(classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(i), classes[i]);
    if (first != classes.begin() + static_cast<std::ptrdiff_t>(i)) {
      c.fail("classes", "'{}' is the name of the labels {} and {}", classes[i], first - classes.begin(), i);
    }
  }
}

const std::vector<std::string>& fashion_mnist_classes() {
  static const std::vector<std::string> names = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                                 "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
  return names;
}

FashionMnistFiles find_fashion_mnist(const std::optional<fs::path>& path) {
  std::error_code ignored;
  fs::path folder = path.value_or(kDebianPath);
  if (!path && !fs::is_directory(folder, ignored)) folder = kFetchedPath;
  const std::string looked = path ? folder.string() : fmt::format("{} and {}", kDebianPath, kFetchedPath);
  constexpr const char* kHint =
      "get it with `apt-get install dataset-fashion-mnist` or `scripts/fetch-data fashion-mnist`, or say in data.path "
      "where it is";
  if (!fs::is_directory(folder, ignored)) fail_usage("there is no Fashion-MNIST in {}: {}", looked, kHint);

  FashionMnistFiles files;
  std::vector<std::string> missing;
  const auto find = [&](const char* stem) {
    fs::path file = find_file(folder, stem);
    if (file.empty()) missing.push_back(fmt::format("{}[.gz]", stem));
    return file;
  };
  files.train = {find("train-images-idx3-ubyte"), find("train-labels-idx1-ubyte")};
  files.test = {find("t10k-images-idx3-ubyte"), find("t10k-labels-idx1-ubyte")};
  if (!missing.empty()) {
    fail_usage("{}: expected the four files of Fashion-MNIST, {} missing: {}", folder.string(),
               fmt::format("{} {}", fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"), kHint);
  }
  return files;
}

FashionMnist::FashionMnist(const FashionMnistConfig& config, uint64_t seed, std::shared_ptr<const ImageAssets> assets)
    : FashionMnist(config, find_fashion_mnist(config.path), seed, std::move(assets)) {}

FashionMnist::FashionMnist(const FashionMnistConfig& config, const FashionMnistFiles& files, uint64_t seed,
                           std::shared_ptr<const ImageAssets> assets)
    : ImageData(config.images, fashion_mnist_classes(), seed, read_image_set(files.train, kFashionMnistClasses),
                read_image_set(files.test, kFashionMnistClasses), std::move(assets)) {}

IdxImages::IdxImages(const IdxImagesConfig& config, uint64_t seed, std::shared_ptr<const ImageAssets> assets)
    : ImageData(config.images, config.classes, seed,
                read_image_set({config.train_images, config.train_labels}, config.num_classes()),
                config.test_images ? read_image_set({*config.test_images, *config.test_labels}, config.num_classes())
                                   : ImageSet{},
                std::move(assets)) {}

}  // namespace fovea::classification
