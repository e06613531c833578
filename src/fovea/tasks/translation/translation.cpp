#include "fovea/tasks/translation/translation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>
#include <unordered_set>

#include "fovea/config/checker.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/data/split.h"

namespace fovea::translation {

const char* data::part_name(data::Part part) {
  switch (part) {
    case data::Part::kTrain:
      return "train";
    case data::Part::kValidation:
      return "validation";
    case data::Part::kTest:
      return "test";
  }
  return "?";
}

void CorpusFiles::fields(config::Fields& f) {
  f("path", path, "file of source<TAB>target lines, plain or gzip");
  f("source_path", source_path, "file of source sentences, one a line, plain or gzip; goes with target_path");
  f("target_path", target_path, "file of target sentences, line by line those of source_path");
}

void CorpusFiles::check(const config::Checker& c) const {
  if (path && (source_path || target_path)) c.fail("path", "give either path or source_path and target_path");
  if (source_path && !target_path) c.fail("source_path", "goes with target_path, which is not given");
  if (target_path && !source_path) c.fail("target_path", "goes with source_path, which is not given");
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
  f.section("validation", validation, "what the training is watched on");
  f.section("test", test, "what nobody looks at before the end");
  f("split", split,
    "by_source: no source sentence is in two parts; in_order: the first train_size pairs of the file, then "
    "validation.size, then test.size",
    config::choice({"by_source", "in_order"}));
  f("train_size", train_size, "with split in_order, how many pairs to train on", config::at_least(1));
  f("num_steps", num_steps, "tokens in a sequence at most, <eos> counted", config::range(2, 4096));
  f("too_long", too_long, "a pair with a longer side: drop it, or truncate the side (keeping <eos>)",
    config::choice({"drop", "truncate"}));
  f("lowercase", lowercase, "lower-case all text");
  f("min_freq", min_freq, "a token that occurs less often becomes <unk>", config::at_least(1));
  f("vocabulary_from", vocabulary_from, "the pairs whose tokens make the vocabulary: train, or train and validation",
    config::choice({"train", "train_and_validation"}));
  f("batch_size", batch_size, "pairs in a batch at most", config::range(1, 65536));
  f("batch_tokens", batch_tokens, "pairs times the longest side in a batch at most; 0: no limit", config::at_least(0));
  f("bucket", bucket, "make training batches of like lengths");
}

void TranslationConfig::check(const config::Checker& c) const {
  files.check(c);
  if (!files.given()) c.fail("path", "no corpus: give data.path, or data.source_path and data.target_path");
  if (split == "in_order") {
    if (!train_size) c.fail("split", "in_order needs train_size");
    for (const auto& [key, part] : {std::pair("validation.size", &validation), std::pair("test.size", &test)}) {
      if (part->size != static_cast<double>(static_cast<int64_t>(part->size))) {
        c.fail(key, "with split in_order expected a whole number of pairs, found {}", part->size);
      }
    }
  } else if (train_size) {
    c.fail("train_size", "goes with split in_order only");
  }
}

LengthOptions TranslationConfig::length() const {
  return {.num_steps = num_steps, .too_long = too_long == "truncate" ? TooLong::kTruncate : TooLong::kDrop};
}

TranslationAssets::TranslationAssets(const TranslationConfig& config, data::Vocabulary source_vocabulary,
                                     data::Vocabulary target_vocabulary)
    : text_(config.text()),
      num_steps_(config.num_steps),
      source_(std::move(source_vocabulary)),
      target_(std::move(target_vocabulary)) {}

namespace {
constexpr const char* kSourceVocabulary = "source.vocab";
constexpr const char* kTargetVocabulary = "target.vocab";
}  // namespace

std::shared_ptr<const TranslationAssets> TranslationAssets::load(const TranslationConfig& config,
                                                                 const std::filesystem::path& dir) {
  return std::make_shared<TranslationAssets>(config, data::Vocabulary::load(dir / kSourceVocabulary),
                                             data::Vocabulary::load(dir / kTargetVocabulary));
}

data::DataSpec TranslationAssets::spec() const {
  return TranslationSpec{
      .source_vocab_size = source_.size(),
      .target_vocab_size = target_.size(),
      .num_steps = num_steps_,
      .target = {.pad = target_.pad(), .bos = target_.bos(), .eos = target_.eos(), .unk = target_.unk()}};
}

void TranslationAssets::save(const std::filesystem::path& dir) const {
  source_.save(dir / kSourceVocabulary);
  target_.save(dir / kTargetVocabulary);
}

void TranslationAssets::check_same(const data::DataAssets& saved) const {
  const auto* other = dynamic_cast<const TranslationAssets*>(&saved);
  if (other == nullptr) fail("the checkpoint is not of a translation model");
  const auto compare = [](const char* side, const data::Vocabulary& now, const data::Vocabulary& then) {
    if (now == then) return;
    for (int64_t id = 0; id < std::min(now.size(), then.size()); ++id) {
      if (now.token(id) != then.token(id)) {
        fail(
            "the {} vocabulary is not that of the checkpoint: token {} was '{}', now '{}' ({} and {} tokens); has "
            "the corpus changed?",
            side, id, then.token(id), now.token(id), then.size(), now.size());
      }
    }
    fail("the {} vocabulary is not that of the checkpoint: it had {} tokens, now {}; has the corpus changed?", side,
         then.size(), now.size());
  };
  compare("source", source_, other->source_);
  compare("target", target_, other->target_);
}

std::vector<int64_t> TranslationAssets::encode(std::string_view sentence, bool* is_cut) const {
  if (is_cut != nullptr) *is_cut = false;
  Tokens tokens = data::to_tokens(sentence, text_);
  if (tokens.empty()) return {};
  return encode_source(std::move(tokens), source_, num_steps_, is_cut);
}

std::string TranslationAssets::decode(const std::vector<int64_t>& ids) const {
  return data::detokenize(target_.decode(ids));
}

namespace {

struct Padded {
  at::Tensor tokens;  // int64 (batch, longest)
  std::vector<int64_t> lengths;
};

// `row(i)` is the i-th sequence.
template <typename Row>
Padded pad_rows(size_t count, int64_t fill, Row row) {
  Padded padded;
  int64_t longest = 0;
  for (size_t i = 0; i < count; ++i) {
    padded.lengths.push_back(static_cast<int64_t>(row(i).size()));
    longest = std::max(longest, padded.lengths.back());
  }
  padded.tokens = at::full({static_cast<int64_t>(count), longest}, fill, at::kLong);
  for (size_t i = 0; i < count; ++i) {
    const auto& ids = row(i);
    std::copy(ids.begin(), ids.end(), padded.tokens.mutable_data_ptr<int64_t>() + static_cast<int64_t>(i) * longest);
  }
  return padded;
}

}  // namespace

std::pair<at::Tensor, nn::SequenceLayout> TranslationAssets::pad_sources(
    const std::vector<std::vector<int64_t>>& sources) const {
  Padded padded = pad_rows(
      sources.size(), source_.pad(), [&](size_t i) -> const auto& { return sources[i]; });
  auto layout = nn::SequenceLayout::padded(std::move(padded.lengths), padded.tokens.size(1));
  return {std::move(padded.tokens), std::move(layout)};
}

namespace {

std::vector<Pair> take(const std::vector<Pair>& pairs, const std::vector<int64_t>& indices) {
  std::vector<Pair> taken;
  taken.reserve(indices.size());
  for (const int64_t i : indices) taken.push_back(pairs[static_cast<size_t>(i)]);
  return taken;
}

data::Split split_pairs(const TranslationConfig& config, const std::vector<Pair>& pairs, uint64_t seed) {
  if (config.split == "in_order") {
    return data::split_in_order(static_cast<int64_t>(pairs.size()), *config.train_size,
                          static_cast<int64_t>(config.validation.size), static_cast<int64_t>(config.test.size));
  }
  std::vector<std::string> keys;
  keys.reserve(pairs.size());
  for (const auto& pair : pairs) keys.push_back(data::split_key(data::to_tokens(pair.source, config.text())));
  return data::split_by_source(keys, {.validation = config.validation.size, .test = config.test.size, .seed = seed});
}

TokenizedCorpus concatenate(TokenizedCorpus a, const TokenizedCorpus& b) {
  a.sources.insert(a.sources.end(), b.sources.begin(), b.sources.end());
  a.targets.insert(a.targets.end(), b.targets.begin(), b.targets.end());
  return a;
}

}  // namespace

TranslationData::TranslationData(const TranslationConfig& config, uint64_t seed,
                                 std::shared_ptr<const data::DataAssets> assets)
    : config_(config), seed_(seed), assets_(std::dynamic_pointer_cast<const TranslationAssets>(assets)) {
  const Corpus corpus = config.files.read();
  read_ = corpus.describe();
  const data::Split split = split_pairs(config, corpus.pairs, seed);
  parts_[0].pairs = take(corpus.pairs, split.train);
  hold_out(parts_[1], config.validation.files, corpus.pairs, split.validation);
  hold_out(parts_[2], config.test.files, corpus.pairs, split.test);

  count_known_sources();

  std::array<TokenizedCorpus, 3> tokenized;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].pairs.empty()) continue;
    tokenized[i] = tokenize_pairs(parts_[i].pairs, config.text(), config.length());
    parts_[i].dropped = tokenized[i].dropped;
    parts_[i].truncated = tokenized[i].truncated;
  }
  if (assets_ == nullptr) {
    const TokenizedCorpus counted =
        config.vocabulary_from == "train" ? tokenized[0] : concatenate(tokenized[0], tokenized[1]);
    assets_ = std::make_shared<TranslationAssets>(config, data::Vocabulary(counted.sources, config.min_freq),
                                                  data::Vocabulary(counted.targets, config.min_freq));
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].encoded = encode_pairs(tokenized[i], assets_->source(), assets_->target());
  }
}

// From files of its own where there are some, else from the training corpus.
void TranslationData::hold_out(Examples& part, const CorpusFiles& files, const std::vector<Pair>& pairs,
                               const std::vector<int64_t>& indices) {
  if (!files.given()) {
    part.pairs = take(pairs, indices);
    return;
  }
  Corpus corpus = files.read();
  part.pairs = std::move(corpus.pairs);
  part.read = corpus.describe();
}

// Held-out files may hold what is trained on, and split in_order may too: that is said, not forbidden.
void TranslationData::count_known_sources() {
  const auto key = [this](const Pair& pair) { return data::split_key(data::to_tokens(pair.source, config_.text())); };
  if (config_.split == "by_source" && !config_.validation.files.given() && !config_.test.files.given()) return;
  std::unordered_set<std::string> trained;
  for (const auto& pair : of(data::Part::kTrain).pairs) trained.insert(key(pair));
  for (Examples& part : std::span(parts_).subspan(1)) {
    for (const auto& pair : part.pairs) part.known_sources += trained.contains(key(pair)) ? 1 : 0;
  }
}

TranslationData::TranslationData(const TranslationConfig& config, std::vector<Pair> test_pairs,
                                 std::shared_ptr<const TranslationAssets> assets)
    : config_(config), seed_(0), assets_(std::move(assets)) {
  Examples& test = parts_[static_cast<size_t>(data::Part::kTest)];
  test.pairs = std::move(test_pairs);
  if (test.pairs.empty()) return;
  const TokenizedCorpus tokenized = tokenize_pairs(test.pairs, config.text(), config.length());
  test.dropped = tokenized.dropped;
  test.truncated = tokenized.truncated;
  test.encoded = encode_pairs(tokenized, assets_->source(), assets_->target());
}

int64_t TranslationData::size(data::Part part) const {
  return static_cast<int64_t>(of(part).encoded.size());
}

data::BatchPlan TranslationData::plan(data::Part part, int64_t epoch) const {
  std::vector<int64_t> lengths;
  lengths.reserve(of(part).encoded.size());
  for (const auto& pair : of(part).encoded) {
    lengths.push_back(static_cast<int64_t>(std::max(pair.source.size(), pair.target.size())));
  }
  const data::BatchingOptions options{
      .batch_size = config_.batch_size, .batch_tokens = config_.batch_tokens, .bucket = config_.bucket};
  return part == data::Part::kTrain ? data::plan_training_batches(lengths, options, seed_, epoch)
                              : data::plan_evaluation_batches(lengths, options);
}

data::Batch TranslationData::batch(data::Part part, int64_t, const std::vector<int64_t>& examples) const {
  const auto pair = [&](size_t i) -> const EncodedPair& { return of(part).encoded[static_cast<size_t>(examples[i])]; };
  const Padded source = pad_rows(
      examples.size(), assets_->source().pad(), [&](size_t i) -> const auto& { return pair(i).source; });
  const Padded label = pad_rows(
      examples.size(), assets_->target().pad(), [&](size_t i) -> const auto& { return pair(i).target; });
  // The decoder's input is the label one step late, behind <bos>.
  const at::Tensor bos = at::full({label.tokens.size(0), 1}, assets_->target().bos(), at::kLong);
  const at::Tensor target = at::cat({bos, label.tokens.narrow(1, 0, label.tokens.size(1) - 1)}, 1);

  data::Batch batch;
  batch.examples = static_cast<int64_t>(examples.size());
  for (const int64_t length : label.lengths) batch.items += length;
  batch.layouts.emplace("source", nn::SequenceLayout::padded(source.lengths, source.tokens.size(1)));
  batch.layouts.emplace("target", nn::SequenceLayout::padded(label.lengths, label.tokens.size(1)));
  batch.tensors = {{"source", source.tokens}, {"target", target}, {"label", label.tokens}};
  return batch;
}

uint64_t TranslationData::fingerprint() const {
  Fnv1a hash;
  const auto add = [&hash](int64_t value) { hash.add(static_cast<uint64_t>(value)); };
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation}) {
    for (const auto& pair : of(part).encoded) {
      for (const auto* side : {&pair.source, &pair.target}) {
        for (const int64_t id : *side) add(id);
        add(-1);
      }
    }
    add(-2);
  }
  return hash.value;
}

std::vector<std::pair<std::string, std::string>> TranslationData::describe() const {
  std::vector<std::pair<std::string, std::string>> lines = {{"corpus", read_}};
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    const Examples& examples = of(part);
    std::string text = fmt::format("{} pairs", examples.encoded.size());
    if (!examples.read.empty()) text += " of " + examples.read;
    if (examples.dropped > 0)
      text += fmt::format(", {} dropped as longer than {} tokens", examples.dropped, config_.num_steps);
    if (examples.truncated > 0)
      text += fmt::format(", {} truncated to {} tokens", examples.truncated, config_.num_steps);
    if (examples.known_sources > 0)
      text += fmt::format(", {} with a source that is trained on", examples.known_sources);
    lines.emplace_back(data::part_name(part), text);
  }
  lines.emplace_back("vocabulary",
                     fmt::format("{} source and {} target tokens", assets_->source().size(), assets_->target().size()));
  return lines;
}

const data::DataEntry& translation_entry() {
  static const data::DataEntry entry{
      .named = {"translation", "pairs of sentences (d2l 10.5)", [] { return std::make_shared<TranslationConfig>(); }},
      .load_assets = [](const config::Section& section,
                        const std::filesystem::path& dir) -> std::shared_ptr<const data::DataAssets> {
        return TranslationAssets::load(dynamic_cast<const TranslationConfig&>(section), dir);
      },
      .make = [](const config::Section& section, uint64_t seed,
                 std::shared_ptr<const data::DataAssets> assets) -> std::unique_ptr<data::DataModule> {
        return std::make_unique<TranslationData>(dynamic_cast<const TranslationConfig&>(section), seed,
                                                 std::move(assets));
      }};
  return entry;
}

}  // namespace fovea::translation
