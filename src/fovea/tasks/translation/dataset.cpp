#include "fovea/tasks/translation/dataset.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>
#include <unordered_set>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/data/spacing.h"
#include "fovea/data/split.h"
#include "fovea/data/text.h"
#include "fovea/tasks/translation/padding.h"

namespace fovea::translation {
namespace {

std::vector<Pair> take(const std::vector<Pair>& pairs, const std::vector<int64_t>& indices) {
  std::vector<Pair> taken;
  taken.reserve(indices.size());
  for (const int64_t i : indices) taken.push_back(pairs[static_cast<size_t>(i)]);
  return taken;
}

// Equal for sources that are the same words, whatever the tokenizer: the parts are the same for all of them.
std::string source_key(const Pair& pair, const TranslationConfig& config) {
  return data::split_key(data::to_tokens(pair.source, config.text()));
}

data::Split split_pairs(const TranslationConfig& config, const std::vector<Pair>& pairs, uint64_t seed) {
  if (config.split == SplitKind::kInOrder) {
    return data::split_in_order(static_cast<int64_t>(pairs.size()), *config.train_size,
                                static_cast<int64_t>(config.validation.size), static_cast<int64_t>(config.test.size));
  }
  std::vector<std::string> keys;
  keys.reserve(pairs.size());
  for (const auto& pair : pairs) keys.push_back(source_key(pair, config));
  return data::split_by_source(keys, {.validation = config.validation.size, .test = config.test.size, .seed = seed});
}

// Of all tokens but <eos>.
double unknown_share(const std::vector<EncodedPair>& pairs, std::vector<int64_t> EncodedPair::*side, int64_t unk) {
  int64_t unknown = 0, tokens = 0;
  for (const auto& pair : pairs) {
    unknown += std::count((pair.*side).begin(), (pair.*side).end(), unk);
    tokens += static_cast<int64_t>((pair.*side).size()) - 1;
  }
  return tokens > 0 ? static_cast<double>(unknown) / static_cast<double>(tokens) : 0;
}

void check_vocabulary(const char* side, const data::Tokenizer& tokenizer, const TranslationConfig& config) {
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.is_reserved(id)) return;
  }
  fail_usage(
      "data.min_freq: no token of the {} side occurs {} or more in the training pairs, so that the vocabulary "
      "holds "
      "special tokens only and there is nothing to learn; choose a smaller data.min_freq",
      side, counted(config.min_freq, "time"));
}

}  // namespace

TranslationData::TranslationData(const TranslationConfig& config, uint64_t seed,
                                 std::shared_ptr<const TranslationAssets> assets)
    : config_(config), seed_(seed), assets_(std::move(assets)) {
  const Corpus corpus = config.files.read(config.unify_characters);
  read_ = corpus.describe();
  add_doubts("train", corpus);
  const data::Split split = split_pairs(config, corpus.pairs, seed);
  parts_[0].pairs = take(corpus.pairs, split.train);
  hold_out(data::Part::kValidation, config.validation.files, corpus.pairs, split.validation);
  hold_out(data::Part::kTest, config.test.files, corpus.pairs, split.test);

  count_known_sources();

  if (assets_ == nullptr) assets_ = learn_assets();
  for (Examples& part : parts_) encode(part, /*needs_some=*/true);
  if (of(data::Part::kTrain).encoded.empty()) return;
  check_vocabulary("source", assets_->source(), config);
  check_vocabulary("target", assets_->target(), config);
}

std::shared_ptr<const TranslationAssets> TranslationData::learn_assets() const {
  const auto source = config_.tokenizer.learner(config_.tokenizer_options());
  const auto target = config_.tokenizer.learner(config_.tokenizer_options());
  learn_from(pairs(data::Part::kTrain), config_.length(), *source, *target);
  if (config_.vocabulary_from != VocabularyFrom::kTrain) {
    learn_from(pairs(data::Part::kValidation), config_.length(), *source, *target);
  }
  return std::make_shared<TranslationAssets>(config_, source->learn(), target->learn());
}

void TranslationData::encode(Examples& part, bool needs_some) const {
  EncodedCorpus corpus = encode_pairs(part.pairs, assets_->source(), assets_->target(), config_.length());
  if (needs_some) check_some_left(corpus, config_.length());
  part.encoded = std::move(corpus.pairs);
  part.raw = std::move(corpus.raw);
  part.dropped = corpus.dropped;
  part.truncated = corpus.truncated;
  part.unknown_source = unknown_share(part.encoded, &EncodedPair::source, assets_->source().unk());
  part.unknown_target = unknown_share(part.encoded, &EncodedPair::target, assets_->target().unk());
}

// From files of its own where there are some, else from the training corpus.
void TranslationData::hold_out(data::Part part, const CorpusFiles& files, const std::vector<Pair>& pairs,
                               const std::vector<int64_t>& indices) {
  Examples& examples = parts_[static_cast<size_t>(part)];
  if (!files.given()) {
    examples.pairs = take(pairs, indices);
    return;
  }
  Corpus corpus = files.read(config_.unify_characters);
  add_doubts(data::part_name(part), corpus);
  examples.pairs = std::move(corpus.pairs);
  examples.read = corpus.describe();
}

void TranslationData::add_doubts(const std::string& name, const Corpus& corpus) {
  for (const auto& doubt : doubts(corpus)) warnings_.push_back(name + ": " + doubt);
}

// Held-out files may hold what is trained on, and split in_order may too: that is said, not forbidden.
void TranslationData::count_known_sources() {
  if (config_.split == SplitKind::kBySource && !config_.validation.files.given() && !config_.test.files.given()) return;
  std::unordered_set<std::string> trained;
  for (const auto& pair : of(data::Part::kTrain).pairs) trained.insert(source_key(pair, config_));
  for (Examples& part : std::span(parts_).subspan(1)) {
    for (const auto& pair : part.pairs) part.known_sources += trained.contains(source_key(pair, config_)) ? 1 : 0;
  }
}

TranslationData::TranslationData(const TranslationConfig& config, std::vector<Pair> pairs,
                                 std::shared_ptr<const TranslationAssets> assets, data::Part part)
    : config_(config), seed_(0), assets_(std::move(assets)) {
  Examples& examples = parts_[static_cast<size_t>(part)];
  examples.pairs = std::move(pairs);
  // A score may be of translations alone: their sources are cut, and there is no loss.
  encode(examples, /*needs_some=*/false);
}

std::unique_ptr<TranslationData> TranslationData::read_part(const TranslationConfig& config, uint64_t seed,
                                                            std::shared_ptr<const TranslationAssets> assets,
                                                            data::Part part) {
  const HeldOutConfig& held_out = part == data::Part::kValidation ? config.validation : config.test;
  if (part == data::Part::kTrain || !held_out.files.given()) {
    return std::make_unique<TranslationData>(config, seed, std::move(assets));
  }
  return std::make_unique<TranslationData>(config, held_out.files.read(config.unify_characters).pairs,
                                           std::move(assets), part);
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

// Of the text, since BLEU is measured on it, and those too long to train on count there too.
uint64_t TranslationData::part_fingerprint(data::Part part) const {
  Fnv1a hash;
  for (const auto& pair : pairs(part)) {
    hash.add_text(pair.source);
    hash.add_text(pair.target);
  }
  hash.add(pairs(part).size());
  return hash.value;
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
    std::string text = counted(examples.encoded.size(), "pair");
    if (!examples.read.empty()) text += " of " + examples.read;
    if (examples.dropped > 0)
      text += fmt::format(", {} dropped as longer than {} tokens", examples.dropped, config_.num_steps);
    if (examples.truncated > 0)
      text += fmt::format(", {} truncated to {} tokens", examples.truncated, config_.num_steps);
    if (examples.known_sources > 0) text += fmt::format(", {} whose source is also trained on", examples.known_sources);
    if (examples.unknown_source > 0 || examples.unknown_target > 0) {
      text += fmt::format(", unknown tokens: {:.1f}% of the source, {:.1f}% of the target",
                          100 * examples.unknown_source, 100 * examples.unknown_target);
    }
    lines.emplace_back(data::part_name(part), text);
  }
  lines.emplace_back("vocabulary", fmt::format("{} of the source, {} of the target", assets_->source().describe(),
                                               assets_->target().describe()));
  return lines;
}

std::vector<std::string> TranslationData::warnings() const {
  constexpr double kManyUnknown = 0.3;
  std::vector<std::string> warnings = warnings_;
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    const Examples& examples = of(part);
    for (const auto& [side, share] :
         {std::pair("source", examples.unknown_source), std::pair("target", examples.unknown_target)}) {
      if (share <= kManyUnknown) continue;
      warnings.push_back(
          fmt::format("{}: {:.0f}% of the {} tokens are unknown words; more pairs, a smaller data.min_freq or "
                      "data.tokenizer.name=characters leave fewer",
                      data::part_name(part), 100 * share, side));
    }
    const auto pairs = static_cast<int64_t>(examples.pairs.size());
    if (2 * examples.dropped > pairs) {
      warnings.push_back(fmt::format(
          "{}: {} of {} pairs are dropped as longer than {} tokens; raise data.num_steps (and model.max_len), "
          "or choose data.too_long=truncate",
          data::part_name(part), examples.dropped, pairs, config_.num_steps));
    }
    if (2 * examples.truncated > pairs) {
      warnings.push_back(
          fmt::format("{}: {} of {} pairs are cut to {} tokens; raise data.num_steps (and model.max_len)",
                      data::part_name(part), examples.truncated, pairs, config_.num_steps));
    }
  }
  if (config_.tokenizer.named.name == "words") {
    for (const auto& [side, text] : {std::pair("source", &Pair::source), std::pair("target", &Pair::target)}) {
      constexpr size_t kEnough = 1000;
      std::vector<std::string> texts;
      for (const auto& pair : of(data::Part::kTrain).pairs) {
        if (texts.size() < kEnough) texts.push_back(pair.*text);
      }
      if (!data::lacks_spaces(texts)) continue;
      warnings.push_back(fmt::format(
          "data.tokenizer: the {} side has no spaces between words, so that a whole clause is one word; choose "
          "data.tokenizer.name=characters",
          side));
    }
  }
  return warnings;
}

}  // namespace fovea::translation
