#include "fovea/tasks/classification/images/image_set.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <memory>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/data/idx.h"

namespace fovea::classification {
namespace {

void check_labels(const at::Tensor& labels, int64_t num_classes, const std::string& name) {
  const int64_t* label = labels.const_data_ptr<int64_t>();
  const int64_t count = labels.size(0);
  int64_t low = 0, high = 0, first = -1;
  for (int64_t i = 0; i < count; ++i) {
    low = i == 0 ? label[i] : std::min(low, label[i]);
    high = i == 0 ? label[i] : std::max(high, label[i]);
    if (first < 0 && (label[i] < 0 || label[i] >= num_classes)) first = i;
  }
  if (first < 0) return;
  fail_usage(
      "{}: expected labels from 0 to {} for {}, found labels from {} to {}: the first that is none is {}, of "
      "example {}{}",
      name, num_classes - 1, counted(num_classes, "class", "classes"), low, high, label[first], first,
      low == 1 && high == num_classes ? " (are they counted from 1?)" : "");
}

const char* const kSwapped = "are the files of images and labels swapped?";

// An image file is read with 1 or 3 channels, so a model of others could never be used.
void check_channels(at::IntArrayRef shape, const std::string& name) {
  if (shape[1] == 1 || shape[1] == 3) return;
  const bool is_interleaved = shape[3] == 1 || shape[3] == 3;
  fail_usage(
      "{}: expected images as count x channels x height x width with 1 channel (gray) or 3 (red, green, blue), found "
      "{}{}",
      name, fmt::join(shape, " x "),
      is_interleaved ? ": the channels seem to be the last axis; move them to the second, as numpy's "
                       "images.transpose(0, 3, 1, 2) does"
                     : "");
}

data::IdxArray read_images(const std::filesystem::path& path) {
  data::IdxArray array = data::read_idx(path);
  const size_t dimensions = array.shape.size();
  if (dimensions != 3 && dimensions != 4) {
    fail_usage(
        "{}: expected images, an array of 3 dimensions (count x height x width) or 4 (count x channels x height x "
        "width), found one of {}{}{}",
        path.string(), data::describe_shape(array.shape), dimensions == 1 ? ", as labels have: " : "",
        dimensions == 1 ? kSwapped : "");
  }
  if (dimensions == 3) array.shape.insert(array.shape.begin() + 1, 1);
  check_channels(array.shape, path.string());
  return array;
}

data::IdxArray read_labels(const std::filesystem::path& path) {
  data::IdxArray array = data::read_idx(path);
  const size_t dimensions = array.shape.size();
  if (dimensions != 1) {
    fail_usage("{}: expected labels, an array of 1 dimension, found one of {}{}{}", path.string(),
               data::describe_shape(array.shape), dimensions >= 3 ? ", as images have: " : "",
               dimensions >= 3 ? kSwapped : "");
  }
  return array;
}

// The tensor keeps the bytes of the file: images are not copied.
at::Tensor as_tensor(data::IdxArray array, const uint8_t* data) {
  const auto shape = array.shape;
  const auto kept = std::make_shared<data::IdxArray>(std::move(array));
  return at::from_blob(
      const_cast<uint8_t*>(data), shape, [kept](void*) {}, at::kByte);
}

}  // namespace

ImageSet ImageSet::take(const std::vector<int64_t>& indices) const {
  ImageSet taken{images, labels.index_select(0, at::tensor(indices, at::kLong)), {}, known_hashes};
  taken.rows.reserve(indices.size());
  for (const int64_t i : indices) taken.rows.push_back(row(i));
  return taken;
}

std::vector<uint64_t> ImageSet::hashes() const {
  std::vector<uint64_t> all;
  for (int64_t i = 0; i < count(); ++i) {
    all.push_back(known_hashes != nullptr ? (*known_hashes)[static_cast<size_t>(row(i))]
                                          : hash_words(pixels(i), static_cast<size_t>(images.stride(0))));
  }
  return all;
}

ImageSet make_image_set(const at::Tensor& images, const at::Tensor& labels, int64_t num_classes,
                        const std::string& name) {
  if (images.dim() != 4 || images.scalar_type() != at::kByte) {
    fail_usage("{}: expected images as uint8 (count, channels, height, width), 4 dimensions, found {} of {}", name,
               c10::toString(images.scalar_type()), data::describe_shape(images.sizes().vec()));
  }
  check_channels(images.sizes(), name);
  if (labels.dim() != 1 || !at::isIntegralType(labels.scalar_type(), false)) {
    fail_usage("{}: expected labels as integers (count), 1 dimension, found {} of {}", name,
               c10::toString(labels.scalar_type()), data::describe_shape(labels.sizes().vec()));
  }
  if (images.size(0) != labels.size(0)) {
    fail_usage("{}: expected one label for each image, found {} and {}", name, counted(images.size(0), "image"),
               counted(labels.size(0), "label"));
  }
  if (images.size(0) > 0 && images.numel() == 0) fail_usage("{}: expected images of pixels, found none in them", name);
  ImageSet set{images.contiguous(), labels.to(at::kLong).contiguous()};
  check_labels(set.labels, num_classes, name);
  return set;
}

ImageSet read_image_set(const ImageFiles& files, int64_t num_classes) {
  data::IdxArray images = read_images(files.images), labels = read_labels(files.labels);
  const std::string image_name = files.images.string(), label_name = files.labels.string();
  if (images.shape[0] != labels.shape[0]) {
    fail_usage("{} holds {}, {} holds {}: expected one label for each image", image_name,
               counted(images.shape[0], "image"), label_name, counted(labels.shape[0], "label"));
  }
  if (images.shape[0] == 0) fail_usage("{}: expected images, found none", image_name);
  if (images.size() == 0) {
    fail_usage("{}: expected images of pixels, found an array of {}", image_name, data::describe_shape(images.shape));
  }
  // One dimension may have been added to the shape; the values start where they started.
  const auto* pixels = reinterpret_cast<const uint8_t*>(images.bytes.data()) + images.bytes.size() - images.size();
  const auto* classes = labels.data();
  ImageSet set{as_tensor(std::move(images), pixels), as_tensor(std::move(labels), classes).to(at::kLong)};
  check_labels(set.labels, num_classes, label_name);
  return set;
}

}  // namespace fovea::classification
