// y = 2 sin(x) + x / 2 at points between 0 and 6.
#pragma once

#include <cmath>

#include "tests/tasks/tiny_task.h"
#include "tests/temp_dir.h"

inline std::string sine_table(int64_t rows) {
  std::string text = "x\ty\n";
  for (int64_t i = 0; i < rows; ++i) {
    const double x = 6.0 * static_cast<double>(i * 7919 % rows) / static_cast<double>(rows);
    text += std::to_string(x) + "\t" + std::to_string(2 * std::sin(x) + 0.5 * x) + "\n";
  }
  return text;
}

inline const TinyTask& tiny_regression() {
  static const TinyTask task{
      "tables of numbers",
      "seed: 3\n"
      "model: {name: mlp, num_hiddens: [16, 16], dropout: 0.1}\n"
      "data: {name: table, path: sine.tsv, validation: {size: 15}, test: {size: 15}, batch_size: 16}\n"
      "optimizer: {name: adam, learning_rate: 0.01}\n"
      "train: {max_epochs: 3, log_every: 1}\n"
      "runtime: {device: cpu, threads: 1}\n",
      [](const std::filesystem::path& dir, int64_t count) { write_bytes(dir / "sine.tsv", sine_table(count)); }};
  return task;
}
