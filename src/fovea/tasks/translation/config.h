#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fovea/config/fields.h"
#include "fovea/data/tokenizer.h"
#include "fovea/tasks/translation/corpus.h"
#include "fovea/tasks/translation/encode.h"

namespace fovea::translation {

/// Where sentence pairs stand: one file of "source<TAB>target" lines, or two parallel files.
struct CorpusFiles {
  std::optional<std::filesystem::path> path, source_path, target_path;
  void fields(config::Fields& f);
  bool given() const { return path || source_path || target_path; }
  void check(const config::Checker& c) const;
  /// Lines of nothing but white space, and if `unify` of characters without a shape, are blank.
  Corpus read(bool unify) const;
};

/// A held-out part: files of its own, or so many of the training pairs.
struct HeldOutConfig : config::Section {
  CorpusFiles files;
  double size = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// How the pairs of one corpus are cut into parts.
enum class SplitKind {
  kBySource,  // no source sentence is in two parts
  kInOrder,   // the first ones to train on, the next to validate, then to test: the book's
};

constexpr auto enum_names(SplitKind) {
  return std::to_array<EnumName<SplitKind>>({{SplitKind::kBySource, "by_source"}, {SplitKind::kInOrder, "in_order"}});
}

/// The pairs whose tokens make the vocabularies.
enum class VocabularyFrom { kTrain, kTrainAndValidation };

constexpr auto enum_names(VocabularyFrom) {
  return std::to_array<EnumName<VocabularyFrom>>(
      {{VocabularyFrom::kTrain, "train"}, {VocabularyFrom::kTrainAndValidation, "train_and_validation"}});
}

/// `data: {name: translation}`.
struct TranslationConfig : config::Section {
  CorpusFiles files;
  HeldOutConfig validation, test;
  SplitKind split = SplitKind::kBySource;
  std::optional<int64_t> train_size;
  int64_t num_steps = 32;
  TooLong too_long = TooLong::kDrop;
  data::TokenizerChoice tokenizer;
  bool lowercase = true;
  bool unify_characters = true;
  int64_t min_freq = 2;
  VocabularyFrom vocabulary_from = VocabularyFrom::kTrain;
  int64_t batch_size = 64;
  int64_t batch_tokens = 0;
  bool bucket = true;

  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
  LengthOptions length() const;
  data::TextOptions text() const { return {.lowercase = lowercase, .unify = unify_characters}; }
  data::TokenizerOptions tokenizer_options() const { return {.text = text(), .min_freq = min_freq}; }
};

}  // namespace fovea::translation
