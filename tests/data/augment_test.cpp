#include "fovea/data/augment.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "fovea/data/draws.h"
#include "tests/catch.h"

using namespace fovea;

namespace {

data::AugmentConfig config_of(int64_t crop_padding, bool flip, double erasing) {
  data::AugmentConfig config;
  config.crop_padding = crop_padding;
  config.flip = flip;
  config.erasing = erasing;
  return config;
}

data::AugmentConfig mixup_of(double mixup) {
  data::AugmentConfig config;
  config.mixup = mixup;
  return config;
}

std::vector<int64_t> range(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

bool same(const data::Augmentation& a, const data::Augmentation& b) {
  return a.down == b.down && a.right == b.right && a.flip == b.flip && a.erased.top == b.erased.top &&
         a.erased.left == b.erased.left && a.erased.height == b.erased.height && a.erased.width == b.erased.width;
}

}  // namespace

TEST_CASE("draws are a function of seed, epoch and example, and of nothing else") {
  const data::AugmentConfig config = config_of(4, true, 0.5);
  int differ_in_seed = 0, differ_in_epoch = 0, differ_in_example = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const data::Augmentation drawn = data::draw_augmentation(config, 28, 28, 1, 2, i);
    CHECK(same(drawn, data::draw_augmentation(config, 28, 28, 1, 2, i)));
    differ_in_seed += same(drawn, data::draw_augmentation(config, 28, 28, 2, 2, i)) ? 0 : 1;
    differ_in_epoch += same(drawn, data::draw_augmentation(config, 28, 28, 1, 3, i)) ? 0 : 1;
    differ_in_example += same(drawn, data::draw_augmentation(config, 28, 28, 1, 2, i + 100)) ? 0 : 1;
    // Switching one kind off does not move the others.
    const data::Augmentation flip_only = data::draw_augmentation(config_of(0, true, 0), 28, 28, 1, 2, i);
    CHECK(flip_only.flip == drawn.flip);
    CHECK((flip_only.down == 0 && flip_only.erased.height == 0));
  }
  CHECK(differ_in_seed > 90);
  CHECK(differ_in_epoch > 90);
  CHECK(differ_in_example > 90);
}

TEST_CASE("crops are uniform, half of the images are mirrored, as many erased as asked for") {
  const int64_t count = 20000, padding = 2;
  const data::AugmentConfig config = config_of(padding, true, 0.25);
  std::map<std::pair<int64_t, int64_t>, int64_t> places;
  double flips = 0, erased = 0;
  for (int64_t i = 0; i < count; ++i) {
    const data::Augmentation drawn = data::draw_augmentation(config, 28, 20, 7, 0, i);
    ++places[{drawn.down, drawn.right}];
    flips += drawn.flip ? 1 : 0;
    const data::Box& box = drawn.erased;
    if (box.height == 0) continue;
    erased += 1;
    const double area = static_cast<double>(box.height * box.width) / (28 * 20);
    CHECK((area > 0.01 && area < 0.36));
    CHECK((box.top >= 0 && box.top + box.height <= 28 && box.left >= 0 && box.left + box.width <= 20));
  }
  CHECK(places.size() == 25);
  for (const auto& [place, times] : places) {
    CHECK(std::max(std::abs(place.first), std::abs(place.second)) <= padding);
    CHECK(std::abs(static_cast<double>(times) - count / 25.0) < 5 * std::sqrt(count / 25.0));
  }
  CHECK(std::abs(flips / count - 0.5) < 0.02);
  CHECK(std::abs(erased / count - 0.25) < 0.02);
}

TEST_CASE("an image is moved, then mirrored; what was outside is black") {
  const std::vector<uint8_t> image = {1, 2, 3,  //
                                      4, 5, 6,  //
                                      7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  std::vector<uint8_t> out(18, 99);
  const auto apply = [&](int64_t down, int64_t right, bool flip) {
    std::fill(out.begin(), out.end(), uint8_t{99});
    data::Augmentation augmentation;
    augmentation.down = down;
    augmentation.right = right;
    augmentation.flip = flip;
    data::crop_and_flip(image.data(), out.data(), 2, 3, 3, augmentation);
    return out;
  };
  CHECK(apply(0, 0, false) == image);
  CHECK(apply(1, 1, false) == std::vector<uint8_t>{5, 6, 0, 8, 9, 0, 0, 0, 0, 15, 16, 0, 18, 19, 0, 0, 0, 0});
  CHECK(apply(-1, -2, true) == std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 4, 0, 0, 0, 0, 0, 11, 0, 0, 14, 0, 0});
  CHECK(apply(0, 0, true) == std::vector<uint8_t>{3, 2, 1, 6, 5, 4, 9, 8, 7, 13, 12, 11, 16, 15, 14, 19, 18, 17});
  CHECK(apply(5, 0, false) == std::vector<uint8_t>(18, 0));
  CHECK(apply(0, -7, false) == std::vector<uint8_t>(18, 0));

  std::vector<float> values(18, 1.0f);
  data::erase(values.data(), 2, 3, 3, {.top = 1, .left = 0, .height = 2, .width = 2});
  CHECK(values == std::vector<float>{1, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0, 0, 1});
}

TEST_CASE("mixing: partners are a permutation, the share comes from Beta(alpha, alpha)") {
  const std::vector<int64_t> examples = range(64);
  const data::Mix mix = data::draw_mix(mixup_of(0.2), 28, 28, 1, 2, examples);
  CHECK(std::set<int64_t>(mix.partners.begin(), mix.partners.end()).size() == 64);
  CHECK(*std::max_element(mix.partners.begin(), mix.partners.end()) == 63);
  CHECK(mix.partners != examples);
  const data::Mix again = data::draw_mix(mixup_of(0.2), 28, 28, 1, 2, examples);
  CHECK((again.partners == mix.partners && again.share == mix.share));
  CHECK(data::draw_mix(mixup_of(0.2), 28, 28, 1, 3, examples).partners != mix.partners);
  CHECK(data::draw_mix(mixup_of(0.2), 28, 28, 2, 2, examples).partners != mix.partners);
  auto other = examples;
  std::swap(other[0], other[1]);
  CHECK(data::draw_mix(mixup_of(0.2), 28, 28, 1, 2, other).share != mix.share);
  CHECK(data::draw_mix(mixup_of(1.0), 28, 28, 1, 2, {5}).partners == std::vector<int64_t>{0});

  for (const double alpha : {0.01, 0.2, 1.0, 4.0, 100.0}) {
    const int count = 4000;
    double sum = 0, squares = 0;
    for (int64_t epoch = 0; epoch < count; ++epoch) {
      const double share = static_cast<double>(data::draw_mix(mixup_of(alpha), 28, 28, 3, epoch, {1, 2, 3}).share);
      REQUIRE((share >= 0.0 && share <= 1.0));
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    INFO("alpha " << alpha);
    const double variance = 0.25 / (2 * alpha + 1);
    CHECK(std::abs(sum / count - 0.5) < 5 * std::sqrt(variance / count));
    CHECK(squares / count == Approx(variance).epsilon(0.1));
  }
}

TEST_CASE("CutMix: a box around a point of the image, and the share of what is left") {
  data::AugmentConfig config;
  config.cutmix = 1.0;
  double sum = 0;
  for (int64_t epoch = 0; epoch < 2000; ++epoch) {
    const data::Mix mix = data::draw_mix(config, 20, 30, 3, epoch, {1, 2, 3});
    REQUIRE(mix.box.has_value());
    const data::Box& box = *mix.box;
    REQUIRE((box.top >= 0 && box.left >= 0 && box.top + box.height <= 20 && box.left + box.width <= 30));
    REQUIRE(mix.share == Approx(1.0 - static_cast<double>(box.height * box.width) / 600.0));
    sum += static_cast<double>(mix.share);
  }
  CHECK(sum / 2000 > 0.5);  // boxes lose what lies outside of the image

  config.mixup = 0.2;
  int cut = 0;
  for (int64_t epoch = 0; epoch < 1000; ++epoch) cut += data::draw_mix(config, 20, 30, 3, epoch, {1, 2}).box ? 1 : 0;
  CHECK((cut > 440 && cut < 560));

  std::vector<float> from(18), to(18, 0.0f);
  std::iota(from.begin(), from.end(), 1.0f);
  data::copy_box(from.data(), to.data(), 2, 3, 3, {.top = 1, .left = 1, .height = 1, .width = 2});
  CHECK(to == std::vector<float>{0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 0, 14, 15, 0, 0, 0});
}
