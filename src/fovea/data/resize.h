#pragma once

#include <cstdint>
#include <vector>

namespace fovea::data {

/// Resizes images of 8-bit values exactly as Python's PIL does with bilinear (triangle) weights, which is what
/// torchvision's transforms.Resize does to PIL images: with antialiasing, so that a smaller image takes every pixel
/// into account; rounded to 8 bits after each of the two passes. Bit for bit the same as Pillow 13, which goes down
/// before it goes across where the height shrinks by more than twice what the width does; earlier Pillows always went
/// across first, which differs by 1 in some pixels of such images.
///
/// Weights are computed once. const, so that one resizer serves many threads.
class Resizer {
 public:
  /// Sizes of one image before and after, all at least 1. Throws Error (kUsage) for others.
  Resizer(int64_t in_height, int64_t in_width, int64_t out_height, int64_t out_width);

  /// `in`: (channels, in_height, in_width); `out`: (channels, out_height, out_width).
  void operator()(const uint8_t* in, uint8_t* out, int64_t channels) const;

  /// True where nothing changes: the sizes are equal.
  bool is_identity() const { return across_.identity() && down_.identity(); }

 private:
  /// One direction: output i is the weighted sum of `counts[i]` inputs from `firsts[i]` on.
  struct Pass {
    Pass(int64_t in, int64_t out);
    bool identity() const { return in_size == out_size; }
    /// `in`: (in_size, columns); `out`: (out_size, columns).
    void operator()(const uint8_t* in, uint8_t* out, int64_t columns) const;

    int64_t in_size, out_size, most;
    std::vector<int64_t> firsts, counts;  // (out_size)
    std::vector<int32_t> weights;         // (out_size, most), 22 bits after the point
  };

  /// (rows, in_width) -> (rows, out_width)
  void go_across(const uint8_t* in, uint8_t* out, int64_t rows, std::vector<uint8_t>& work) const;

  Pass down_, across_;
  bool down_first_;
};

}  // namespace fovea::data
