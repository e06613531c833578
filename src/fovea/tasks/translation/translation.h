#pragma once

#include <optional>

#include "fovea/tasks/translation/corpus.h"
#include "fovea/data/data_module.h"
#include "fovea/tasks/translation/encode.h"
#include "fovea/data/vocabulary.h"

namespace fovea::translation {

/// Where sentence pairs stand: one file of "source<TAB>target" lines, or two parallel files.
struct CorpusFiles {
  std::optional<std::filesystem::path> path, source_path, target_path;
  void fields(config::Fields& f);
  bool given() const { return path || source_path || target_path; }
  void check(const config::Checker& c) const;
  Corpus read() const;
};

/// A held-out part: files of its own, or so many of the training pairs.
struct HeldOutConfig : config::Section {
  CorpusFiles files;
  double size = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// `data: {name: translation}`.
struct TranslationConfig : config::Section {
  CorpusFiles files;
  HeldOutConfig validation, test;
  std::string split = "by_source";
  std::optional<int64_t> train_size;
  int64_t num_steps = 32;
  std::string too_long = "drop";
  bool lowercase = true;
  int64_t min_freq = 2;
  std::string vocabulary_from = "train";
  int64_t batch_size = 64;
  int64_t batch_tokens = 0;
  bool bucket = true;

  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  LengthOptions length() const;
  data::TextOptions text() const { return {.lowercase = lowercase}; }
};

/// From text to ids and back: all that translating needs.
class TranslationAssets : public data::DataAssets {
 public:
  TranslationAssets(const TranslationConfig& config, data::Vocabulary source_vocabulary, data::Vocabulary target_vocabulary);
  static std::shared_ptr<const TranslationAssets> load(const TranslationConfig& config,
                                                       const std::filesystem::path& dir);

  data::DataSpec spec() const override;
  void save(const std::filesystem::path& dir) const override;
  void check_same(const data::DataAssets& saved) const override;

  /// The ids of a sentence and its <eos>, cut to num_steps; empty for a blank line. `is_cut` tells whether it was.
  std::vector<int64_t> encode(std::string_view sentence, bool* is_cut = nullptr) const;
  /// Text of generated ids.
  std::string decode(const std::vector<int64_t>& ids) const;
  /// (batch, longest) and its layout.
  std::pair<at::Tensor, nn::SequenceLayout> pad_sources(const std::vector<std::vector<int64_t>>& sources) const;

  bool lowercase() const { return text_.lowercase; }
  const data::Vocabulary& source() const { return source_; }
  const data::Vocabulary& target() const { return target_; }

 private:
  data::TextOptions text_;
  int64_t num_steps_;
  data::Vocabulary source_, target_;
};

class TranslationData : public data::DataModule {
 public:
  /// Throws Error for files that cannot be read and for parts that come out empty though they were asked for.
  TranslationData(const TranslationConfig& config, uint64_t seed, std::shared_ptr<const data::DataAssets> assets = nullptr);

  std::shared_ptr<const data::DataAssets> assets() const override { return assets_; }
  int64_t size(data::Part part) const override;
  data::BatchPlan plan(data::Part part, int64_t epoch) const override;
  data::Batch batch(data::Part part, int64_t epoch, const std::vector<int64_t>& examples) const override;
  const char* unit() const override { return "tokens"; }
  uint64_t fingerprint() const override;
  std::vector<std::pair<std::string, std::string>> describe() const override;

  /// The pairs of a part as they stand in the file, those too long to train on too: what BLEU is measured on.
  const std::vector<Pair>& pairs(data::Part part) const { return of(part).pairs; }

  /// The examples of any pairs, for evaluating a file: a module with only a test part.
  TranslationData(const TranslationConfig& config, std::vector<Pair> test_pairs,
                  std::shared_ptr<const TranslationAssets> assets);

 private:
  struct Examples {
    std::vector<Pair> pairs;
    std::vector<EncodedPair> encoded;
    std::string read;  // what reading files of its own found
    int64_t dropped = 0, truncated = 0;
    int64_t known_sources = 0;  // pairs held out whose source is trained on
  };
  static void hold_out(Examples& part, const CorpusFiles& files, const std::vector<Pair>& pairs,
                       const std::vector<int64_t>& indices);
  void count_known_sources();
  const Examples& of(data::Part part) const { return parts_[static_cast<size_t>(part)]; }

  TranslationConfig config_;
  uint64_t seed_;
  std::string read_;  // what reading the files found
  std::array<Examples, 3> parts_;
  std::shared_ptr<const TranslationAssets> assets_;
};

const data::DataEntry& translation_entry();

}  // namespace fovea::translation
