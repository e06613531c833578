// Experiments small enough to train in a test. Of translation: words are "translated" by adding a letter and turning
// their order round. Of images: see tiny_images.h. A model learns either in seconds.
#pragma once

#include <string>
#include <vector>

#include "fovea/train/trainer.h"
#include "models/models.h"
#include "tests/temp_dir.h"
#include "tests/test.h"
#include "tests/tiny_images.h"

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

enum class TinyKind { kTranslation, kImages };

struct TinyExperiment {
  TempDir dir;
  std::vector<std::string> settings;

  /// `count` examples of that kind, some of which are held out.
  TinyExperiment(TinyKind kind, int64_t count, std::vector<std::string> extra = {})
      : TinyExperiment(kind == TinyKind::kTranslation ? count : 1, extra) {
    if (kind == TinyKind::kTranslation) return;
    write_tiny_images(dir.path(), static_cast<uint32_t>(count), 20, 12, 4);
    write_bytes(dir / "tiny.yaml",
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
                "runtime: {device: cpu, threads: 1}\n");
  }

  explicit TinyExperiment(int64_t pairs = 150, std::vector<std::string> extra = {}) : settings(std::move(extra)) {
    write_bytes(dir / "corpus.tsv", reversing_corpus(pairs));
    write_bytes(
        dir / "tiny.yaml",
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
        "runtime: {device: cpu, threads: 1}\n");
  }

  fovea::train::ExperimentConfig config(const std::vector<std::string>& more = {}) const {
    auto all = settings;
    all.insert(all.end(), more.begin(), more.end());
    return fovea::train::load_experiment(fovea::models::registry(), dir / "tiny.yaml", all);
  }

  /// Trains into `name`, fresh or on from its last checkpoint.
  fovea::train::StopReason train(const std::string& name, const std::vector<std::string>& more = {}, bool resume = false) {
    const auto experiment = config(more);
    const auto data = experiment.make_data();
    const auto module = experiment.make_model(data->spec());
    const auto run = resume ? fovea::train::RunDirectory::open(dir / name)
                            : fovea::train::RunDirectory::create(dir / name, "", fovea::train::RunDirectory::Existing::kRefuse);
    fovea::Progress progress({.quiet = true});
    fovea::train::Trainer trainer(experiment, *module, *data, run, at::kCPU, progress);
    if (resume) trainer.resume(run.checkpoints().open("last"));
    const auto reason = trainer.fit();
    state = trainer.state();
    return reason;
  }

  std::string final_weights(const std::string& name) const {
    return read_bytes(fovea::train::CheckpointStore(dir / name).open("last") / "model.safetensors");
  }

  fovea::train::TrainState state;
};

/// The kind of data that a model takes.
inline TinyKind kind_of(const fovea::train::ModelEntry& entry) {
  try {
    fovea::translation::TranslationSpec spec;
    spec.source_vocab_size = spec.target_vocab_size = 5;
    entry.make(*entry.named.make(), spec);
    return TinyKind::kTranslation;
  } catch (const fovea::Error&) {
    return TinyKind::kImages;
  }
}
