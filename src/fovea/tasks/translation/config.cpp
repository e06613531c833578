#include "fovea/tasks/translation/config.h"

#include "fovea/config/checker.h"

namespace fovea::translation {

void CorpusFiles::fields(config::Fields& f) {
  f("path", path, "file of source<TAB>target lines, plain or gzip");
  f("source_path", source_path, "file of source sentences, one a line, plain or gzip; needs target_path");
  f("target_path", target_path, "file of target sentences, line by line those of source_path");
}

void CorpusFiles::check(const config::Checker& c) const {
  if (path && (source_path || target_path)) c.fail("path", "give either path or source_path and target_path");
  if (source_path && !target_path) c.fail("source_path", "needs target_path, which is not given");
  if (target_path && !source_path) c.fail("target_path", "needs source_path, which is not given");
}

Corpus CorpusFiles::read() const {
  return path ? read_tsv(*path) : read_parallel(*source_path, *target_path);
}

void HeldOutConfig::fields(config::Fields& f) {
  files.fields(f);
  f("size", size,
    "how many training pairs to hold out: a fraction below 1, or a number of pairs; with split in_order a number",
    config::at_least(0));
}

void HeldOutConfig::check(const config::Checker& c) const {
  files.check(c);
  if (files.given() && size > 0)
    c.fail("size", "files of its own are given, so nothing can be held out of the training pairs");
}

void TranslationConfig::fields(config::Fields& f) {
  files.fields(f);
  f.section("validation", validation, "the part that training is watched on");
  f.section("test", test, "the held-out test set");
  f("split", split,
    "by_source: no source sentence is in two parts; in_order: the first train_size pairs of the file, then "
    "validation.size, then test.size");
  f("train_size", train_size, "with split in_order, how many pairs to train on", config::at_least(1));
  f("num_steps", num_steps, "maximum tokens in a sequence, <eos> counted", config::range(2, 4096));
  f("too_long", too_long, "a pair with a longer side: drop it, or truncate the side (keeping <eos>)");
  tokenizer.fields(f);
  f("lowercase", lowercase, "lower-case all text");
  f("min_freq", min_freq, "a token that occurs less often becomes <unk>", config::at_least(1));
  f("vocabulary_from", vocabulary_from, "the pairs whose tokens make the vocabulary: train, or train and validation");
  f("batch_size", batch_size, "maximum pairs in a batch", config::range(1, 65536));
  f("batch_tokens", batch_tokens, "maximum of pairs times the longest side in a batch; 0: no limit",
    config::at_least(0));
  f("bucket", bucket, "make training batches of like lengths");
}

void TranslationConfig::check(const config::Checker& c) const {
  files.check(c);
  if (!files.given()) c.fail("path", "no corpus: give data.path, or data.source_path and data.target_path");
  if (split == SplitKind::kInOrder) {
    if (!train_size) c.fail("split", "in_order needs train_size");
    for (const auto& [key, part] : {std::pair("validation.size", &validation), std::pair("test.size", &test)}) {
      if (part->size != static_cast<double>(static_cast<int64_t>(part->size))) {
        c.fail(key, "with split in_order expected a whole number of pairs, found {}", part->size);
      }
    }
  } else if (train_size) {
    c.fail("train_size", "needs split: in_order");
  }
}

LengthOptions TranslationConfig::length() const {
  return {.num_steps = num_steps, .too_long = too_long};
}

}  // namespace fovea::translation
