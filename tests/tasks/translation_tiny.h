// Words are "translated" by adding a letter and turning their order round.
#pragma once

#include <vector>

#include "tests/tasks/tiny_task.h"
#include "tests/temp_dir.h"

inline std::string reversing_corpus(int64_t pairs) {
  const std::vector<std::string> words = {"ba", "ce", "di", "fo", "gu", "ha", "je", "ki"};
  std::string text;
  uint64_t random = 88172645463325252ull;
  for (int64_t i = 0; i < pairs; ++i) {
    std::string source, target;
    const auto next = [&] {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      return random;
    };
    const size_t length = 1 + next() % 5;
    for (size_t j = 0; j < length; ++j) {
      const std::string& word = words[next() % words.size()];
      source += (source.empty() ? "" : " ") + word;
      target = word + "x" + (target.empty() ? "" : " ") + target;
    }
    text += source + " " + std::to_string(i % 97) + "\t" + target + "\n";
  }
  return text;
}

inline const TinyTask& tiny_translation() {
  static const TinyTask task{
      "sentence pairs",
      "seed: 3\n"
      "model: {name: transformer, num_hiddens: 16, ffn_num_hiddens: 16, num_heads: 2, num_blks: 1, dropout: 0.2}\n"
      "data:\n"
      "  name: translation\n"
      "  path: corpus.tsv\n"
      "  num_steps: 8\n"
      "  min_freq: 1\n"
      "  validation: {size: 20}\n"
      "  test: {size: 20}\n"
      "  batch_size: 16\n"
      "train: {max_epochs: 3, log_every: 1}\n"
      "runtime: {device: cpu, threads: 1}\n",
      [](const std::filesystem::path& dir, int64_t count) {
        write_bytes(dir / "corpus.tsv", reversing_corpus(count));
      }};
  return task;
}
