#include "fovea/data/resize.h"

#include "fovea/core/error.h"
#include "fovea/data/image_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fovea::data {
namespace {

constexpr int kWeightBits = 22;  // PIL's: 32 bits, less 8 of the pixel, less 2 for sums beyond it

double triangle(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

/// (rows, columns) -> (columns, rows), in blocks that stay in cache.
void transpose(const uint8_t* in, uint8_t* out, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 16;
  for (int64_t y0 = 0; y0 < rows; y0 += kBlock) {
    for (int64_t x0 = 0; x0 < columns; x0 += kBlock) {
      const int64_t y1 = std::min(rows, y0 + kBlock), x1 = std::min(columns, x0 + kBlock);
      for (int64_t x = x0; x < x1; ++x) {
        for (int64_t y = y0; y < y1; ++y) out[x * rows + y] = in[y * columns + x];
      }
    }
  }
}

}  // namespace

// As precompute_coeffs and normalize_coeffs_8bpc in Pillow's Resample.c, in the same order of operations.
Resizer::Pass::Pass(int64_t in, int64_t out) : in_size(in), out_size(out), most(0) {
  if (in < 1 || out < 1) fail_usage("resizing needs images of one pixel or more, got {} to {}", in, out);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter_scale;  // the triangle reaches one (scaled) pixel to each side
  most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  weights.assign(static_cast<size_t>(out * most), 0);
  std::vector<double> exact(static_cast<size_t>(most));
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t count = std::min(in, static_cast<int64_t>(center + support + 0.5)) - first;
    double sum = 0;
    for (int64_t x = 0; x < count; ++x) {
      const double weight = triangle((static_cast<double>(x + first) - center + 0.5) * (1.0 / filter_scale));
      exact[static_cast<size_t>(x)] = weight;
      sum += weight;
    }
    for (int64_t x = 0; x < count; ++x) {
      const double weight = sum != 0 ? exact[static_cast<size_t>(x)] / sum : exact[static_cast<size_t>(x)];
      weights[static_cast<size_t>(i * most + x)] = static_cast<int32_t>(0.5 + weight * (1 << kWeightBits));
    }
    firsts.push_back(first);
    counts.push_back(count);
  }
}

void Resizer::Pass::operator()(const uint8_t* in, uint8_t* out, int64_t columns) const {
  for (int64_t i = 0; i < out_size; ++i) {
    const auto at = static_cast<size_t>(i);
    resize_row(in + firsts[at] * columns, columns, weights.data() + i * most, counts[at], out + i * columns, columns);
  }
}

Resizer::Resizer(int64_t in_height, int64_t in_width, int64_t out_height, int64_t out_width)
    : down_(in_height, out_height),
      across_(in_width, out_width),
      down_first_(out_height < in_height && in_height - out_height > 2 * (in_width - out_width)) {}

// Across is down on the transposed image: there the sums run over whole rows, which vectors are made for.
void Resizer::go_across(const uint8_t* in, uint8_t* out, int64_t rows, std::vector<uint8_t>& work) const {
  const int64_t before = rows * across_.in_size, after = rows * across_.out_size;
  work.resize(static_cast<size_t>(before + after));
  uint8_t* const turned = work.data();
  transpose(in, turned, rows, across_.in_size);             // (in_width, rows)
  across_(turned, turned + before, rows);                   // (out_width, rows)
  transpose(turned + before, out, across_.out_size, rows);  // (rows, out_width)
}

void Resizer::operator()(const uint8_t* in, uint8_t* out, int64_t channels) const {
  const int64_t in_height = down_.in_size, in_width = across_.in_size;
  const int64_t out_height = down_.out_size, out_width = across_.out_size;
  std::vector<uint8_t> between, work;
  for (int64_t c = 0; c < channels; ++c, in += in_height * in_width, out += out_height * out_width) {
    if (is_identity()) {
      std::memcpy(out, in, static_cast<size_t>(in_height * in_width));
    } else if (down_.identity()) {
      go_across(in, out, in_height, work);
    } else if (across_.identity()) {
      down_(in, out, in_width);
    } else if (down_first_) {
      between.resize(static_cast<size_t>(out_height * in_width));
      down_(in, between.data(), in_width);               // (out_height, in_width)
      go_across(between.data(), out, out_height, work);  // (out_height, out_width)
    } else {
      between.resize(static_cast<size_t>(in_height * out_width));
      go_across(in, between.data(), in_height, work);  // (in_height, out_width)
      down_(between.data(), out, out_width);           // (out_height, out_width)
    }
  }
}

}  // namespace fovea::data
