// Labelled images small enough to learn in a test, in IDX files: a bright square whose place is the class, in noise.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/tasks/tiny_task.h"
#include "tests/temp_dir.h"

/// The bytes of an IDX file of unsigned bytes.
inline std::string idx_bytes(const std::vector<uint32_t>& sizes, const std::string& data) {
  std::string bytes = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 0xFF);
  }
  return bytes + data;
}

struct TinyImages {
  std::string images, labels;  // IDX
};

/// `count` images of `side` x `side` in `classes` classes (9 at most).
inline TinyImages tiny_images(uint32_t count, uint32_t side, uint32_t classes, uint64_t seed) {
  uint64_t random = 88172645463325252ull + seed * 0x9E3779B97F4A7C15ull;
  const auto next = [&] {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
  };
  std::string pixels, labels;
  const uint32_t third = side / 3;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t label = next() % classes;
    for (uint32_t y = 0; y < side; ++y) {
      for (uint32_t x = 0; x < side; ++x) {
        const bool inside = y / third == label / 3 && x / third == label % 3;
        pixels += static_cast<char>(next() % 100 + (inside ? 120 : 0));
      }
    }
    labels += static_cast<char>(label);
  }
  return {idx_bytes({count, side, side}, pixels), idx_bytes({count}, labels)};
}

/// The four files under the names that Fashion-MNIST's have.
inline void write_tiny_images(const std::filesystem::path& folder, uint32_t train, uint32_t test, uint32_t side,
                              uint32_t classes) {
  const TinyImages a = tiny_images(train, side, classes, 1), b = tiny_images(test, side, classes, 2);
  write_bytes(folder / "train-images-idx3-ubyte", a.images);
  write_bytes(folder / "train-labels-idx1-ubyte", a.labels);
  write_bytes(folder / "t10k-images-idx3-ubyte", b.images);
  write_bytes(folder / "t10k-labels-idx1-ubyte", b.labels);
}

inline const TinyTask& tiny_image_task() {
  static const TinyTask task{
      "labelled images",
      "seed: 3\n"
      "model:\n"
      "  {name: vit, patch_size: 4, num_hiddens: 16, mlp_num_hiddens: 24, num_heads: 2, num_blks: 2}\n"
      "data:\n"
      "  name: idx_images\n"
      "  train_images: train-images-idx3-ubyte\n"
      "  train_labels: train-labels-idx1-ubyte\n"
      "  test_images: t10k-images-idx3-ubyte\n"
      "  test_labels: t10k-labels-idx1-ubyte\n"
      "  classes: [top left, top, top right, left]\n"
      "  validation: {size: 20}\n"
      "  batch_size: 16\n"
      "train: {max_epochs: 3, log_every: 1}\n"
      "runtime: {device: cpu, threads: 1}\n",
      [](const std::filesystem::path& dir, int64_t count) {
        write_tiny_images(dir, static_cast<uint32_t>(count), 20, 12, 4);
      }};
  return task;
}
