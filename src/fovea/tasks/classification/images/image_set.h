#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace fovea::classification {

/// Labelled images of one size, kept as bytes. Sets that were taken of one another share the images.
struct ImageSet {
  at::Tensor images;  // uint8 (stored images, channels, height, width), contiguous
  at::Tensor labels;  // int64 (count)
  /// Where in `images` each example stands; empty: example i is image i.
  std::vector<int64_t> rows = {};
  /// The hash of each stored image, where whoever read them knows it.
  std::shared_ptr<const std::vector<uint64_t>> known_hashes = nullptr;

  int64_t count() const { return labels.defined() ? labels.size(0) : 0; }
  int64_t row(int64_t example) const { return rows.empty() ? example : rows[static_cast<size_t>(example)]; }
  const uint8_t* pixels(int64_t example) const {
    return images.const_data_ptr<uint8_t>() + row(example) * images.stride(0);
  }
  int64_t label(int64_t example) const { return labels.const_data_ptr<int64_t>()[example]; }
  /// The examples at `indices`; no image is copied.
  ImageSet take(const std::vector<int64_t>& indices) const;
  /// One number for each example, a function of its pixels alone; equal images have equal ones.
  std::vector<uint64_t> hashes() const;
};

/// Two IDX files, plain or gzip.
struct ImageFiles {
  std::filesystem::path images, labels;
};

/// Reads images of 2 (height, width) or 3 (channels, height, width) dimensions each and their labels. There is 1
/// channel (gray) or there are 3 (red, green, blue). Throws Error naming the files and the numbers: what read_idx()
/// refuses; other numbers of channels, such as those of (height, width, channels); images and labels that are swapped,
/// that are not of one count, none at all, and labels that are not 0 .. num_classes - 1.
ImageSet read_image_set(const ImageFiles& files, int64_t num_classes);

/// Checks tensors that come from elsewhere in the same way; `name` names them in errors. Labels may be of any integer
/// type.
ImageSet make_image_set(const at::Tensor& images, const at::Tensor& labels, int64_t num_classes,
                        const std::string& name);

}  // namespace fovea::classification
