#include "fovea/data/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "fovea/data/draws.h"

namespace fovea::data {
namespace {

constexpr double kStrongest = 30.0;

struct Picture {
  uint8_t* pixels;
  int64_t channels, height, width;
  int64_t size() const { return height * width; }
  uint8_t* channel(int64_t c) const { return pixels + c * size(); }
};

uint8_t to_pixel(double value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
}

// A pixel at (y, x) from the centre comes from (yy y + yx x + down, xy y + xx x + right).
struct Motion {
  double yy = 1, yx = 0, down = 0, xy = 0, xx = 1, right = 0;
};

void move(const Picture& p, const Motion& m) {
  const std::vector<uint8_t> before(p.pixels, p.pixels + p.channels * p.size());
  const double middle_y = static_cast<double>(p.height - 1) / 2, middle_x = static_cast<double>(p.width - 1) / 2;
  for (int64_t y = 0; y < p.height; ++y) {
    for (int64_t x = 0; x < p.width; ++x) {
      const double dy = static_cast<double>(y) - middle_y, dx = static_cast<double>(x) - middle_x;
      const int64_t from_y = std::lround(m.yy * dy + m.yx * dx + m.down + middle_y);
      const int64_t from_x = std::lround(m.xy * dy + m.xx * dx + m.right + middle_x);
      const bool inside = from_y >= 0 && from_y < p.height && from_x >= 0 && from_x < p.width;
      for (int64_t c = 0; c < p.channels; ++c) {
        p.channel(c)[y * p.width + x] =
            inside ? before[static_cast<size_t>(c * p.size() + from_y * p.width + from_x)] : uint8_t{0};
      }
    }
  }
}

// The weights of red, green and blue in grey, as torchvision.
double grey_of(const Picture& p, int64_t i) {
  if (p.channels != 3) return p.channel(0)[i];
  return std::floor(0.2989 * p.channel(0)[i] + 0.587 * p.channel(1)[i] + 0.114 * p.channel(2)[i]);
}

// factor * image + (1 - factor) * other(channel, place)
template <class Other>
void blend(const Picture& p, double factor, const Other& other) {
  for (int64_t c = 0; c < p.channels; ++c) {
    for (int64_t i = 0; i < p.size(); ++i) {
      uint8_t& pixel = p.channel(c)[i];
      pixel = to_pixel(factor * pixel + (1 - factor) * other(c, i));
    }
  }
}

void change_colour(const Picture& p, double factor) {
  if (p.channels != 3) return;
  std::vector<double> grey(static_cast<size_t>(p.size()));
  for (int64_t i = 0; i < p.size(); ++i) grey[static_cast<size_t>(i)] = grey_of(p, i);
  blend(p, factor, [&](int64_t, int64_t i) { return grey[static_cast<size_t>(i)]; });
}

void change_contrast(const Picture& p, double factor) {
  double sum = 0;
  for (int64_t i = 0; i < p.size(); ++i) sum += grey_of(p, i);
  const double mean = sum / static_cast<double>(p.size());
  blend(p, factor, [&](int64_t, int64_t) { return mean; });
}

// Against a blurred image: the weights are 1 around and 5 in the middle; the outermost pixels stay.
void change_sharpness(const Picture& p, double factor) {
  if (p.height < 3 || p.width < 3) return;
  const std::vector<uint8_t> before(p.pixels, p.pixels + p.channels * p.size());
  blend(p, factor, [&](int64_t c, int64_t i) -> double {
    const int64_t y = i / p.width, x = i % p.width;
    const uint8_t* at = before.data() + c * p.size() + i;
    if (y == 0 || x == 0 || y + 1 == p.height || x + 1 == p.width) return *at;
    int sum = 4 * *at;
    for (int64_t dy = -1; dy <= 1; ++dy) {
      for (int64_t dx = -1; dx <= 1; ++dx) sum += at[dy * p.width + dx];
    }
    return std::round(sum / 13.0);
  });
}

template <class Change>
void each_pixel(const Picture& p, const Change& change) {
  std::array<uint8_t, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = change(static_cast<uint8_t>(i));
  std::transform(p.pixels, p.pixels + p.channels * p.size(), p.pixels, [&](uint8_t v) { return table[v]; });
}

void spread(uint8_t* channel, int64_t size) {  // from 0 to 255
  const auto [low, high] = std::minmax_element(channel, channel + size);
  const double least = *low, most = *high;
  if (least == most) return;
  for (int64_t i = 0; i < size; ++i) channel[i] = to_pixel((channel[i] - least) * 255.0 / (most - least));
}

void equalize(uint8_t* channel, int64_t size) {  // as PIL
  std::array<int64_t, 256> counts{};
  for (int64_t i = 0; i < size; ++i) ++counts[channel[i]];
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t n) { return n > 0; });
  const int64_t step = (size - *last) / 255;
  if (step == 0) return;
  std::array<uint8_t, 256> table{};
  int64_t below = step / 2;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<uint8_t>(std::min<int64_t>(255, below / step));
    below += counts[i];
  }
  std::transform(channel, channel + size, channel, [&](uint8_t v) { return table[v]; });
}

}  // namespace

void RandAugment::fields(config::Fields& f) {
  f("operations", operations, "how many operations change an image, such as 2; 0: none", config::range(0, 16));
  f("magnitude", magnitude, "their strength, of 30", config::range(0, 30));
}

std::vector<ImageOperation> draw_operations(const RandAugment& config, Draws draws) {
  using Kind = ImageOperationKind;
  const double strength = static_cast<double>(config.magnitude) / kStrongest;
  std::vector<ImageOperation> drawn;
  for (int64_t i = 0; i < config.operations; ++i) {
    const auto kind = static_cast<Kind>(draws.below(kImageOperations));
    const double sign = draws.word() >> 31 != 0 ? -1.0 : 1.0;
    double value = 0;
    switch (kind) {
      case Kind::kShearX:
      case Kind::kShearY:
        value = sign * 0.3 * strength;
        break;
      case Kind::kTranslateX:
      case Kind::kTranslateY:
        value = sign * 150.0 / 331.0 * strength;
        break;
      case Kind::kRotate:
        value = sign * 30.0 * strength;
        break;
      case Kind::kBrightness:
      case Kind::kColor:
      case Kind::kContrast:
      case Kind::kSharpness:
        value = sign * 0.9 * strength;
        break;
      case Kind::kPosterize:
        value = 8.0 - std::round(4.0 * strength);
        break;
      case Kind::kSolarize:
        value = 255.0 * (1.0 - strength);
        break;
      default:
        break;
    }
    drawn.push_back({kind, value});
  }
  return drawn;
}

void apply(const ImageOperation& operation, uint8_t* image, int64_t channels, int64_t height, int64_t width) {
  using Kind = ImageOperationKind;
  const Picture p = {image, channels, height, width};
  const double value = operation.value;
  switch (operation.kind) {
    case Kind::kIdentity:
      return;
    case Kind::kShearX:
      return move(p, {.xy = value});
    case Kind::kShearY:
      return move(p, {.yx = value});
    case Kind::kTranslateX:
      return move(p, {.right = std::round(value * static_cast<double>(width))});
    case Kind::kTranslateY:
      return move(p, {.down = std::round(value * static_cast<double>(height))});
    case Kind::kRotate: {
      const double angle = value * std::numbers::pi / 180.0;
      return move(p, {.yy = std::cos(angle), .yx = -std::sin(angle), .xy = std::sin(angle), .xx = std::cos(angle)});
    }
    case Kind::kBrightness:
      return blend(p, 1 + value, [](int64_t, int64_t) { return 0.0; });
    case Kind::kColor:
      return change_colour(p, 1 + value);
    case Kind::kContrast:
      return change_contrast(p, 1 + value);
    case Kind::kSharpness:
      return change_sharpness(p, 1 + value);
    case Kind::kPosterize: {
      const auto mask = static_cast<uint8_t>(0xFF << (8 - static_cast<int>(value)));
      return each_pixel(p, [&](uint8_t v) { return static_cast<uint8_t>(v & mask); });
    }
    case Kind::kSolarize:
      return each_pixel(p, [&](uint8_t v) { return v >= value ? static_cast<uint8_t>(255 - v) : v; });
    case Kind::kAutoContrast:
      for (int64_t c = 0; c < channels; ++c) spread(p.channel(c), p.size());
      return;
    case Kind::kEqualize:
      for (int64_t c = 0; c < channels; ++c) equalize(p.channel(c), p.size());
      return;
  }
}

}  // namespace fovea::data
