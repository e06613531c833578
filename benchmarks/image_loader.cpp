// How many images the loader's one thread makes ready in a second of the processor's time, in batches of 128: other
// programs on the machine do not count. Training a small ViT on 28 x 28 images takes some thousands a second on a few
// cores.
//
//   bench_image_loader [--rounds 5]
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/tasks/classification/images/image_datasets.h"

namespace {

using namespace fovea;

double images_per_second(const classification::ImageOptions& options, const classification::ImageSet& set, int rounds) {
  const classification::ImageData data(options, classification::fashion_mnist_classes(), 1, set, {});
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    const std::clock_t start = std::clock();  // of all threads; the one that waits takes next to nothing
    data::Loader loader(data, data::Part::kTrain, round);
    int64_t images = 0;
    while (const auto batch = loader.next()) images += batch->examples;
    rates.push_back(static_cast<double>(images) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - start));
  }
  std::nth_element(rates.begin(), rates.begin() + rounds / 2, rates.end());
  return rates[static_cast<size_t>(rounds / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 3 && std::string(argv[1]) == "--rounds" ? std::max(1, std::stoi(argv[2])) : 5;
  const classification::ImageSet set{at::randint(0, 256, {20000, 1, 28, 28}, at::kByte),
                                     at::arange(20000).remainder(10)};
  classification::ImageOptions options;
  options.validation.size = 0;
  options.batch_size = 128;
  const auto report = [&](const char* what) {
    std::printf("%-52s %9.0f images/s\n", what, images_per_second(options, set, rounds));
  };
  report("28 x 28");
  options.augment.crop_padding = 2;
  options.augment.flip = true;
  report("28 x 28, crop, flip");
  options.augment.erasing = 0.25;
  options.augment.mixup = 0.2;
  report("28 x 28, crop, flip, erasing, mixup");
  options.resize = {96, 96};
  report("96 x 96 resized, crop, flip, erasing, mixup");
  options.augment = {};
  report("96 x 96 resized");
}
