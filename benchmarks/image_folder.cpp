// Epochs of a class folder through the loader, in batches of 128: images a second of wall time as JSON, for each line
// of the standard input. "first": as a first training, without a cache: list, decode, one epoch. "again": as a second
// one, which finds the cache. "epoch": one more epoch.
//
//   bench_image_folder FOLDER CACHE [THREADS]
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "fovea/data/loader.h"
#include "fovea/tasks/classification/images/file_images.h"

int main(int argc, char** argv) {
  using namespace fovea;
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_image_folder FOLDER CACHE [THREADS]\n");
    return 2;
  }
  classification::ImageFolderConfig config;
  config.path = argv[1];
  config.cache = argv[2];
  config.images.validation.size = config.test.size = 0;
  config.images.batch_size = 128;
  at::set_num_threads(argc > 3 ? std::stoi(argv[3]) : 2);
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<classification::ImageFolder> data;
  int64_t epoch = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "first") std::filesystem::remove_all(*config.cache);
    const auto start = Clock::now();
    if (line != "epoch" || data == nullptr) data = std::make_unique<classification::ImageFolder>(config, 1, nullptr);
    data::Loader loader(*data, data::Part::kTrain, epoch++);
    int64_t images = 0;
    while (const auto batch = loader.next()) images += batch->examples;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::printf("{\"images_per_second\": %.0f, \"images\": %lld}\n", static_cast<double>(images) / seconds,
                static_cast<long long>(images));
    std::fflush(stdout);
  }
}
