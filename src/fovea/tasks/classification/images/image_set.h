#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::classification {

/// Labelled images of one size, kept as bytes.
struct ImageSet {
  at::Tensor images;  // uint8 (count, channels, height, width)
  at::Tensor labels;  // int64 (count)

  int64_t count() const { return labels.defined() ? labels.size(0) : 0; }
  /// The examples at `indices`, copied.
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
