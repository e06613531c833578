#include "fovea/data/rand_augment.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "fovea/data/draws.h"
#include "tests/catch.h"

using namespace fovea;
using Kind = data::ImageOperationKind;

namespace {

std::vector<uint8_t> changed(Kind kind, double value, std::vector<uint8_t> image, int64_t channels, int64_t height,
                             int64_t width) {
  data::apply({kind, value}, image.data(), channels, height, width);
  return image;
}

std::vector<uint8_t> counting(int64_t size) {
  std::vector<uint8_t> image(static_cast<size_t>(size));
  std::iota(image.begin(), image.end(), uint8_t{1});
  return image;
}

}  // namespace

TEST_CASE("RandAugment: pixels that move") {
  const auto image = counting(9);  // 1 2 3 / 4 5 6 / 7 8 9
  CHECK(changed(Kind::kIdentity, 0, image, 1, 3, 3) == image);
  CHECK(changed(Kind::kTranslateX, 1.0 / 3, image, 1, 3, 3) == std::vector<uint8_t>{2, 3, 0, 5, 6, 0, 8, 9, 0});
  CHECK(changed(Kind::kTranslateX, -1.0 / 3, image, 1, 3, 3) == std::vector<uint8_t>{0, 1, 2, 0, 4, 5, 0, 7, 8});
  CHECK(changed(Kind::kTranslateY, 1.0 / 3, image, 1, 3, 3) == std::vector<uint8_t>{4, 5, 6, 7, 8, 9, 0, 0, 0});
  CHECK(changed(Kind::kShearX, 1.0, image, 1, 3, 3) == std::vector<uint8_t>{0, 1, 2, 4, 5, 6, 8, 9, 0});
  CHECK(changed(Kind::kShearY, 1.0, image, 1, 3, 3) == std::vector<uint8_t>{0, 2, 6, 1, 5, 9, 4, 8, 0});
  CHECK(changed(Kind::kRotate, 90, image, 1, 3, 3) == std::vector<uint8_t>{7, 4, 1, 8, 5, 2, 9, 6, 3});
  CHECK(changed(Kind::kRotate, 0, image, 1, 3, 3) == image);
  // Every channel alike.
  const auto two = changed(Kind::kTranslateX, 1.0 / 3, counting(18), 2, 3, 3);
  CHECK(std::vector<uint8_t>(two.begin() + 9, two.end()) == std::vector<uint8_t>{11, 12, 0, 14, 15, 0, 17, 18, 0});
}

TEST_CASE("RandAugment: values that change, as torchvision's functions") {
  const std::vector<uint8_t> image = {10, 50, 100, 200};
  CHECK(changed(Kind::kBrightness, 0.5, image, 1, 2, 2) == std::vector<uint8_t>{15, 75, 150, 255});
  CHECK(changed(Kind::kContrast, -0.5, image, 1, 2, 2) == std::vector<uint8_t>{50, 70, 95, 145});  // the mean is 90
  CHECK(changed(Kind::kPosterize, 4, image, 1, 2, 2) == std::vector<uint8_t>{0, 48, 96, 192});
  CHECK(changed(Kind::kSolarize, 100, image, 1, 2, 2) == std::vector<uint8_t>{10, 50, 155, 55});
  CHECK(changed(Kind::kAutoContrast, 0, image, 1, 2, 2) == std::vector<uint8_t>{0, 53, 120, 255});
  CHECK(changed(Kind::kAutoContrast, 0, {7, 7, 7, 7}, 1, 2, 2) == std::vector<uint8_t>{7, 7, 7, 7});
  CHECK(changed(Kind::kColor, -0.9, image, 1, 2, 2) == image);  // grey has no colour
  CHECK(changed(Kind::kColor, -1.0, {255, 0, 0}, 3, 1, 1) == std::vector<uint8_t>{76, 76, 76});
  std::vector<uint8_t> dot(9, 0);
  dot[4] = 130;
  CHECK(changed(Kind::kSharpness, -1.0, dot, 1, 3, 3)[4] == 50);  // 5 / 13 of it
  CHECK(changed(Kind::kSharpness, 0.0, dot, 1, 3, 3) == dot);
  // Half dark, half a little lighter: as far apart as can be.
  std::vector<uint8_t> flat(1024, 10);
  std::fill(flat.begin() + 512, flat.end(), uint8_t{12});
  const auto equal = changed(Kind::kEqualize, 0, flat, 1, 32, 32);
  CHECK(equal[0] == 0);
  CHECK(equal[1023] == 255);
}

TEST_CASE("RandAugment: draws") {
  data::RandAugment config;
  config.operations = 2;
  config.magnitude = 15;
  std::map<Kind, int> counts;
  int negative = 0, rotations = 0;
  for (uint64_t i = 0; i < 7000; ++i) {
    const auto drawn = data::draw_operations(config, data::Draws(1, 2, data::kRandAugment, i));
    REQUIRE(drawn.size() == 2);
    for (const auto& operation : drawn) {
      ++counts[operation.kind];
      if (operation.kind != Kind::kRotate) continue;
      ++rotations;
      negative += operation.value < 0 ? 1 : 0;
      CHECK(std::abs(operation.value) == Approx(15.0));
    }
  }
  CHECK(counts.size() == data::kImageOperations);
  for (const auto& [kind, count] : counts) CHECK((count > 850 && count < 1150));
  CHECK((negative > 0.4 * rotations && negative < 0.6 * rotations));
}
