#include "fovea/tasks/classification/images/cifar.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/text.h"

namespace fovea::classification {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kSide = 32, kChannels = 3;
constexpr size_t kImageBytes = kChannels * kSide * kSide;

/// Where one of the two lies, and how its records begin.
struct CifarFormat {
  const char* name;     // "CIFAR-10"
  const char* archive;  // the file that is published
  const char* folder;   // that it makes
  std::vector<const char*> train;
  const char* test;
  const char* class_names;
  size_t label_bytes, label;  // how many a record begins with, and which is read
};

CifarFormat cifar10_format() {
  return {.name = "CIFAR-10",
          .archive = "cifar-10-binary.tar.gz",
          .folder = "cifar-10-batches-bin",
          .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
          .test = "test_batch.bin",
          .class_names = "batches.meta.txt",
          .label_bytes = 1,
          .label = 0};
}

CifarFormat cifar100_format(CifarLabels labels) {
  const bool is_fine = labels == CifarLabels::kFine;
  return {.name = "CIFAR-100",
          .archive = "cifar-100-binary.tar.gz",
          .folder = "cifar-100-binary",
          .train = {"train.bin"},
          .test = "test.bin",
          .class_names = is_fine ? "fine_label_names.txt" : "coarse_label_names.txt",
          .label_bytes = 2,  // coarse, then fine
          .label = is_fine ? size_t{1} : size_t{0}};
}

fs::path find_cifar(const CifarFormat& format, const fs::path& path, const char* file) {
  std::error_code ignored;
  for (const auto& folder : {path, path / format.folder}) {
    for (const char* packed : {"", ".gz"}) {
      fs::path found = folder / (std::string(file) + packed);
      if (fs::exists(found, ignored)) return found;
    }
  }
  fail_usage(
      "{}: there is no {} of {}'s binary version; expected the folder that {} is unpacked to "
      "(https://www.cs.toronto.edu/~kriz/cifar.html)",
      path.string(), file, format.name, format.archive);
}

std::vector<std::string> read_class_names(const CifarFormat& format, const fs::path& path) {
  const fs::path file = find_cifar(format, path, format.class_names);
  const std::string bytes = read_maybe_gzip(file);
  std::vector<std::string> names;
  for (const auto line : data::split_lines(data::check_utf8(bytes, file.string()))) {
    if (!data::is_blank(line)) names.emplace_back(data::normalize(line));
  }
  if (names.size() < 2) fail_usage("{}: expected a name for each class, found {}", file.string(), names.size());
  return names;
}

ImageSet read_records(const CifarFormat& format, const fs::path& path, const std::vector<const char*>& files,
                      size_t num_classes) {
  const size_t record = format.label_bytes + kImageBytes;
  std::vector<std::string> contents;
  size_t count = 0;
  for (const char* name : files) {
    const fs::path file = find_cifar(format, path, name);
    contents.push_back(read_maybe_gzip(file));
    const std::string& bytes = contents.back();
    if (bytes.empty() || bytes.size() % record != 0) {
      fail_usage("{}: expected records of {} bytes ({} and an image of 3 x 32 x 32), found {}: {}", file.string(),
                 record, counted(format.label_bytes, "label"), counted(bytes.size(), "byte"), describe_content(bytes));
    }
    count += bytes.size() / record;
    for (size_t i = 0; i < bytes.size() / record; ++i) {
      const auto label = static_cast<uint8_t>(bytes[i * record + format.label]);
      if (label < num_classes) continue;
      fail_usage("{}: image {} has the label {}; expected 0 to {}, as {} names classes", file.string(), i, label,
                 num_classes - 1, format.class_names);
    }
  }
  ImageSet set{at::empty({static_cast<int64_t>(count), kChannels, kSide, kSide}, at::kByte),
               at::empty({static_cast<int64_t>(count)}, at::kLong)};
  uint8_t* pixels = set.images.data_ptr<uint8_t>();
  int64_t* label = set.labels.data_ptr<int64_t>();
  for (const auto& bytes : contents) {
    for (size_t at = 0; at < bytes.size(); at += record, pixels += kImageBytes) {
      *label++ = static_cast<uint8_t>(bytes[at + format.label]);
      std::memcpy(pixels, bytes.data() + at + format.label_bytes, kImageBytes);
    }
  }
  return set;
}

ImageParts read_cifar(const CifarFormat& format, const fs::path& path, bool only_test) {
  ImageParts parts;
  parts.classes = read_class_names(format, path);
  parts.test = read_records(format, path, {format.test}, parts.classes.size());
  if (!only_test) parts.train = read_records(format, path, format.train, parts.classes.size());
  parts.by_class = true;
  return parts;
}

}  // namespace

void Cifar10Config::fields(config::Fields& f) {
  f("path", path, "folder of the binary version's files (data_batch_1.bin, ..., test_batch.bin)", config::required);
  images.fields(f);
}

void Cifar100Config::fields(config::Fields& f) {
  f("path", path, "folder of the binary version's files (train.bin, test.bin)", config::required);
  f("labels", labels, "the hundred fine classes, or the twenty coarse ones");
  images.fields(f);
}

ImageParts Cifar10Config::read(bool only_test) const {
  return read_cifar(cifar10_format(), path, only_test);
}

ImageParts Cifar100Config::read(bool only_test) const {
  return read_cifar(cifar100_format(labels), path, only_test);
}

}  // namespace fovea::classification
