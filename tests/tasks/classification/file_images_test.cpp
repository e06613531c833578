#include "fovea/tasks/classification/images/file_images.h"

#include <ATen/ATen.h>

#include <map>
#include <set>

#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/tasks/classification/images/cifar.h"
#include "fovea/tasks/classification/images/propose.h"
#include "tests/tasks/image_files.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;
namespace fs = std::filesystem;
using classification::ImageFolder;
using classification::ImageFolderConfig;
using classification::ImageTable;
using classification::ImageTableConfig;
using data::Part;

namespace {

// So many different images of 6 x 5 in a folder.
void write_class(const fs::path& folder, int64_t count, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i) {
    write_png(folder / fmt::format("{}.png", i), 6, 5, 1000 * seed + static_cast<uint64_t>(i));
  }
}

template <typename Config>
Config config_of(const TempDir& dir, const std::string& path, const std::string& yaml = "") {
  Config config;
  config::read(config, config::parse_yaml(fmt::format("{{path: {}, cache: {}{}{}}}", (dir / path).string(),
                                                      (dir / "cache").string(), yaml.empty() ? "" : ", ", yaml),
                                          "x.yaml"));
  return config;
}

ImageFolder folder_data(const TempDir& dir, const std::string& path, const std::string& yaml = "", uint64_t seed = 1) {
  return {config_of<ImageFolderConfig>(dir, path, yaml), seed, nullptr};
}

std::map<int64_t, int64_t> label_counts(const classification::ImageData& data, Part part) {
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < data.size(part); ++i) ++counts[data.labels(part)[i].item<int64_t>()];
  return counts;
}

std::set<std::string> images_of(const classification::ImageData& data, Part part) {
  std::set<std::string> all;
  for (int64_t i = 0; i < data.size(part); ++i) {
    const at::Tensor image = data.image(part, i).contiguous();
    all.emplace(reinterpret_cast<const char*>(image.const_data_ptr<uint8_t>()), static_cast<size_t>(image.numel()));
  }
  return all;
}

}  // namespace

TEST_CASE("a folder for each class: each class gives its share to each part", "[image_folder]") {
  const TempDir dir;
  write_class(dir / "photos/cat", 40, 1);
  write_class(dir / "photos/dog/deeper", 20, 2);
  write_class(dir / "photos/.hidden", 3, 3);
  write_bytes(dir / "photos/dog/notes.txt", "x");
  write_bytes(dir / "photos/dog/Thumbs.db", "x");
  const auto data = folder_data(dir, "photos", "validation: {size: 0.2}, test: {size: 6}, resize: [4, 7], mean: [0.5]");
  CHECK(data.image_assets().class_names() == std::vector<std::string>{"cat", "dog"});
  CHECK(label_counts(data, Part::kValidation) == std::map<int64_t, int64_t>{{0, 8}, {1, 4}});
  CHECK(label_counts(data, Part::kTest) == std::map<int64_t, int64_t>{{0, 4}, {1, 2}});
  CHECK(data.size(Part::kTrain) == 42);
  CHECK(data.batch(Part::kTrain, 0, {0, 1}).tensor("image").sizes() == at::IntArrayRef({2, 3, 4, 7}));
  CHECK(data.warnings() ==
        std::vector<std::string>{(dir / "photos").string() + ": 1 file is left out: by name neither PNG nor JPEG"});

  const auto train = images_of(data, Part::kTrain), test = images_of(data, Part::kTest);
  const auto same = folder_data(dir, "photos", "validation: {size: 0.2}, test: {size: 6}, resize: [4, 7]");
  CHECK(images_of(same, Part::kTest) == test);
  CHECK(same.fingerprint() == data.fingerprint());
  const auto other = folder_data(dir, "photos", "validation: {size: 0.2}, test: {size: 6}, resize: [4, 7]", 2);
  CHECK(images_of(other, Part::kTest) != test);
  for (const auto& image : test) CHECK_FALSE(train.contains(image));
}

TEST_CASE("equal images are in one part, whatever their names and classes", "[image_folder]") {
  const TempDir dir;
  for (const char* name : {"a", "b"}) {
    for (int copy = 0; copy < 3; ++copy) write_class(dir / fmt::format("photos/{}/{}", name, copy), 10, 1);
  }
  const auto data = folder_data(dir, "photos", "validation: {size: 12}, test: {size: 6}");
  CHECK(data.size(Part::kTrain) + data.size(Part::kValidation) + data.size(Part::kTest) == 60);
  const auto train = images_of(data, Part::kTrain), test = images_of(data, Part::kTest);
  CHECK(train.size() == static_cast<size_t>(data.size(Part::kTrain)) / 6);
  for (const auto& image : test) CHECK_FALSE(train.contains(image));
}

TEST_CASE("folders of parts are the parts", "[image_folder]") {
  const TempDir dir;
  write_class(dir / "photos/train/cat", 9, 1);
  write_class(dir / "photos/train/dog", 8, 2);
  write_class(dir / "photos/Valid/dog", 3, 3);
  const std::string options = "validation: {size: 0.5}, test: {size: 0}";
  const auto data = folder_data(dir, "photos", options);
  CHECK(data.size(Part::kTrain) == 17);
  CHECK(label_counts(data, Part::kValidation) == std::map<int64_t, int64_t>{{1, 3}});
  CHECK(data.size(Part::kTest) == 0);

  SECTION("without a test folder, test images are held out") {
    CHECK(folder_data(dir, "photos").size(Part::kTest) == 2);
  }
  SECTION("a trained model is evaluated on a test part alone, its classes by name") {
    write_class(dir / "more/test/dog", 4, 5);
    const auto assets = std::make_shared<const classification::ImageAssets>(data.image_assets());
    const auto test = ImageFolder::read_part(config_of<ImageFolderConfig>(dir, "more"), 1, assets, Part::kTest);
    CHECK(label_counts(*test, Part::kTest) == std::map<int64_t, int64_t>{{1, 4}});
    write_class(dir / "more/test/cow", 1, 6);
    CHECK_THAT(
        error_of([&] { ImageFolder::read_part(config_of<ImageFolderConfig>(dir, "more"), 1, assets, Part::kTest); }),
        ContainsSubstring("cow is not one of those that the model was trained on: cat, dog"));
  }
  SECTION("a class may be called train") {
    write_class(dir / "vehicles/train", 9, 1);
    write_class(dir / "vehicles/bus", 9, 2);
    CHECK(folder_data(dir, "vehicles").image_assets().class_names() == std::vector<std::string>{"bus", "train"});
  }
}

TEST_CASE("classes are in the order of bytes, numbers in that of numbers", "[image_folder]") {
  const TempDir dir;
  for (const char* name : {"10", "9", "b", "B"}) write_class(dir / fmt::format("mixed/{}", name), 3, 1);
  for (const char* name : {"10", "9", "1"}) write_class(dir / fmt::format("numbers/{}", name), 3, 1);
  CHECK(classification::list_image_folder(dir / "mixed").classes == std::vector<std::string>{"10", "9", "B", "b"});
  CHECK(classification::list_image_folder(dir / "numbers").classes == std::vector<std::string>{"1", "9", "10"});
}

TEST_CASE("a folder of another layout is refused, saying what was found", "[image_folder]") {
  const TempDir dir;
  const auto error = [&](const std::string& path) {
    return error_of([&] { classification::list_image_folder(dir / path); });
  };
  write_bytes(dir / "file", "abc");
  fs::create_directories(dir / "empty");
  write_class(dir / "flat", 3, 1);
  write_class(dir / "one/cat", 3, 1);
  write_class(dir / "beside/cat", 3, 1);
  write_png(dir / "beside/x.png", 3, 3, 1);
  write_class(dir / "void/cat", 3, 1);
  fs::create_directories(dir / "void/dog");
  for (const char* part : {"train", "val"}) write_class(dir / fmt::format("parts/{}/cat", part), 3, 1);
  write_class(dir / "parts/train/dog", 3, 1);
  CHECK_THAT(error("nowhere"), ContainsSubstring("no such folder"));
  CHECK_THAT(error("file"), ContainsSubstring("found a file: text that begins"));
  CHECK_THAT(error("empty"), ContainsSubstring("expected a folder for each class"));
  CHECK_THAT(error("flat"), ContainsSubstring("holds 3 images and no folders"));
  CHECK_THAT(error("one"), ContainsSubstring("one class only, cat"));
  CHECK_THAT(error("beside"), ContainsSubstring("1 image beside the folders"));
  CHECK_THAT(error("void"), ContainsSubstring("dog: the folder of a class holds no PNG or JPEG images"));
  CHECK(error("parts").empty());
  write_class(dir / "parts/valid/cat", 3, 1);
  CHECK_THAT(error("parts"), ContainsSubstring("two folders of one part, val and valid"));
  fs::remove_all(dir / "parts/valid");
  write_class(dir / "parts/val/cow", 3, 1);
  CHECK_THAT(error("parts"), ContainsSubstring("cow is not one of those to train on: cat, dog"));
  fs::remove_all(dir / "parts/val/cow");
  write_class(dir / "parts/zebra", 3, 1);
  CHECK_THAT(error("parts"), ContainsSubstring("holds zebra beside train"));
  fs::remove_all(dir / "parts/zebra");
  fs::remove_all(dir / "parts/train");
  CHECK_THAT(error("parts"), ContainsSubstring("holds val and no train"));
}

TEST_CASE("a class with too few images is named", "[image_folder]") {
  const TempDir dir;
  write_class(dir / "photos/cat", 20, 1);
  write_class(dir / "photos/dog", 2, 2);
  CHECK_THAT(error_of([&] { folder_data(dir, "photos"); }),
             ContainsSubstring("the class dog has 2 different examples: too few to hold out 1 for validation and 1"));
  CHECK(folder_data(dir, "photos", "test: {size: 0}").size(Part::kTest) == 0);
}

TEST_CASE("damaged files are an error that names them, or are left out with a warning", "[image_folder]") {
  const TempDir dir;
  write_class(dir / "photos/cat", 20, 1);
  write_class(dir / "photos/dog", 20, 2);
  write_bytes(dir / "photos/dog/7.png", "GIF89a");
  const std::string error = error_of([&] { folder_data(dir, "photos"); });
  CHECK_THAT(error, ContainsSubstring("1 of 40 images cannot be read"));
  CHECK_THAT(error, ContainsSubstring("dog/7.png: expected a PNG or JPEG image, found a GIF image"));
  CHECK_THAT(error, ContainsSubstring("data.damaged=skip"));
  const auto data = folder_data(dir, "photos", "damaged: skip, test: {size: 0}");
  CHECK(data.size(Part::kTrain) + data.size(Part::kValidation) == 39);
  REQUIRE(data.warnings().size() == 1);
  CHECK_THAT(data.warnings()[0], ContainsSubstring("dog/7.png"));
}

TEST_CASE("a changed image changes the fingerprint of its part, a changed name does not", "[image_folder]") {
  const TempDir dir;
  for (const char* part : {"train", "val", "test"}) {
    write_class(dir / fmt::format("photos/{}/cat", part), 5, 1);
    write_class(dir / fmt::format("photos/{}/dog", part), 5, 2);
  }
  const auto before = folder_data(dir, "photos");
  write_png(dir / "photos/val/cat/3.png", 6, 5, 77);
  const auto after = folder_data(dir, "photos");
  CHECK(after.part_fingerprint(Part::kTrain) == before.part_fingerprint(Part::kTrain));
  CHECK(after.part_fingerprint(Part::kValidation) != before.part_fingerprint(Part::kValidation));
  CHECK(after.part_fingerprint(Part::kTest) == before.part_fingerprint(Part::kTest));
  CHECK(after.fingerprint() != before.fingerprint());
  fs::rename(dir / "photos", dir / "moved");
  CHECK(folder_data(dir, "moved").fingerprint() == after.fingerprint());
}

TEST_CASE("a table names images, labels and perhaps parts", "[image_table]") {
  const TempDir dir;
  write_class(dir / "a", 12, 1);
  const auto read = [&](const std::string& text, const std::string& yaml = "") {
    write_bytes(dir / "t.csv", text);
    return ImageTable(config_of<ImageTableConfig>(dir, "t.csv", yaml), 1, nullptr);
  };
  const auto lines = [](const std::string& header, const std::string& separator, auto part) {
    std::string text = header;
    for (int i = 0; i < 12; ++i) {
      text += fmt::format("a/{}.png{}{}{}\n", i, separator, i % 2 == 0 ? "cat" : "dog", part(i));
    }
    return text;
  };
  const auto none = [](int) { return std::string(); };
  for (const auto& text : {lines("File,Label\n", ",", none), lines("filename\tclass\n", "\t", none),
                           lines("", ",", none), lines("\xEF\xBB\xBFpath;category\n\n", ";", none)}) {
    const auto data = read(text, "test: {size: 0}");
    CHECK(data.image_assets().class_names() == std::vector<std::string>{"cat", "dog"});
    CHECK(data.size(Part::kTrain) == 11);
    CHECK(label_counts(data, Part::kValidation) == std::map<int64_t, int64_t>{{0, 1}});
  }
  const auto parts = read(lines("path,label,split\n", ",", [](int i) {
    return i < 8 ? ",train" : i < 10 ? ",val" : ",TEST";
  }));
  CHECK(parts.size(Part::kTrain) == 8);
  CHECK(parts.size(Part::kValidation) == 2);
  CHECK(parts.size(Part::kTest) == 2);
  CHECK(read(lines("where,what\n", ",", none), "image_column: where, label_column: what").size(Part::kTest) == 1);

  write_png(dir / "odd, \"name\".png", 6, 5, 9);
  CHECK(read(lines("path,label\n", ",", none) + "\"odd, \"\"name\"\".png\",\"cat\"\n", "test: {size: 0}")
            .size(Part::kTrain) == 12);
}

TEST_CASE("what is wrong in a table is named with its line", "[image_table]") {
  const TempDir dir;
  write_class(dir / "a", 12, 1);
  const auto error = [&](const std::string& text) {
    write_bytes(dir / "t.csv", text);
    return error_of([&] { ImageTable(config_of<ImageTableConfig>(dir, "t.csv"), 1, nullptr); });
  };
  CHECK_THAT(error("x,y\n1,2\n"), ContainsSubstring("the first line holds x, y"));
  CHECK_THAT(error("path,y\n1,2\n"), ContainsSubstring("data.label_column=NAME"));
  CHECK_THAT(error("path,label\na/0.png\n"),
             ContainsSubstring("t.csv:2: expected 2 columns as in the first line, found 1"));
  CHECK_THAT(error("path,label\na/0.png,\n"), ContainsSubstring("t.csv:2: expected a path and a label"));
  CHECK_THAT(error("path,label\n\"a/0.png,cat\n"), ContainsSubstring("t.csv:2: a quote"));
  CHECK_THAT(error("path,label\na/0.png,cat\na/1.png,dog\n./a/0.png,dog\n"),
             ContainsSubstring("t.csv:4: ./a/0.png is dog here, and cat in line 2"));
  CHECK_THAT(error("path,label,part\na/0.png,cat,trian\n"), ContainsSubstring("t.csv:2: expected the part train"));
  CHECK_THAT(error("path,label\na/0.png,cat\na/1.png,cat\n"), ContainsSubstring("one class only, cat"));
  CHECK_THAT(error("path,label\na/0.png,cat\na/none.png,dog\n"), ContainsSubstring("t.csv:3: cannot open"));
  CHECK_THAT(error("path,label\n"), ContainsSubstring("found none"));
}

TEST_CASE("CIFAR's binary files are read as published", "[cifar]") {
  const TempDir dir;
  const auto record = [](const std::string& labels, int first) {
    std::string bytes = labels;
    for (int i = 0; i < 3072; ++i) bytes += static_cast<char>(first + i / 1024);
    return bytes;
  };
  const auto records = [&](const std::vector<std::string>& labels) {
    std::string bytes;
    for (size_t i = 0; i < labels.size(); ++i) bytes += record(labels[i], static_cast<int>(10 * i));
    return bytes;
  };
  SECTION("10") {
    const fs::path in = dir / "cifar-10-batches-bin";
    fs::create_directories(in);
    for (int i = 1; i < 6; ++i) {
      std::string bytes;
      for (int j = 0; j < 8; ++j) bytes += record(std::string(1, static_cast<char>(j % 2)), 8 * i + j);
      write_bytes(in / fmt::format("data_batch_{}.bin", i), bytes);
    }
    write_bytes(in / "test_batch.bin", records({std::string(1, '\1'), std::string(1, '\0')}));
    write_bytes(in / "batches.meta.txt", "airplane\nautomobile\n\n");
    classification::Cifar10Config config;
    config.path = dir.path();
    const classification::Cifar10 data(config, 1, nullptr);
    CHECK(data.image_assets().class_names() == std::vector<std::string>{"airplane", "automobile"});
    CHECK(label_counts(data, Part::kValidation) == std::map<int64_t, int64_t>{{0, 2}, {1, 2}});
    CHECK(data.size(Part::kTrain) == 36);
    CHECK(data.labels(Part::kTest)[0].item<int64_t>() == 1);
    CHECK(data.image(Part::kTest, 1)[2][31][31].item<int64_t>() == 12);
    fs::remove(in / "data_batch_3.bin");
    CHECK_THAT(error_of([&] { classification::Cifar10(config, 1, nullptr); }),
               ContainsSubstring("there is no data_batch_3.bin of CIFAR-10's binary version"));
    const auto assets = std::make_shared<const classification::ImageAssets>(data.image_assets());
    CHECK(classification::Cifar10::read_part(config, 1, assets, Part::kTest)->part_fingerprint(Part::kTest) ==
          data.part_fingerprint(Part::kTest));
    write_bytes(in / "test_batch.bin", records({std::string(1, '\2')}));
    CHECK_THAT(error_of([&] { config.read(true); }), ContainsSubstring("image 0 has the label 2; expected 0 to 1"));
    write_bytes(in / "test_batch.bin", "abc");
    CHECK_THAT(error_of([&] { config.read(true); }), ContainsSubstring("expected records of 3073 bytes"));
  }
  SECTION("100") {
    const std::string coarse_then_fine = {1, 2};
    write_bytes(dir / "test.bin", records({coarse_then_fine}));
    write_bytes(dir / "fine_label_names.txt", "a\nb\nc\n");
    write_bytes(dir / "coarse_label_names.txt", "x\ny\n");
    classification::Cifar100Config config;
    config.path = dir.path();
    CHECK(config.read(true).test.label(0) == 2);
    config.labels = classification::CifarLabels::kCoarse;
    CHECK(config.read(true).test.label(0) == 1);
    CHECK(config.read(true).classes == std::vector<std::string>{"x", "y"});
  }
}
