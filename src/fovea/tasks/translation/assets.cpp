#include "fovea/tasks/translation/assets.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/tasks/translation/padding.h"

namespace fovea::translation {
namespace {

constexpr const char* kSourceVocabulary = "source.vocab";
constexpr const char* kTargetVocabulary = "target.vocab";

std::vector<std::string> tokens_of(const data::Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (int64_t id = 0; id < vocabulary.size(); ++id) tokens.push_back(vocabulary.token(id));
  return tokens;
}

}  // namespace

TranslationAssets::TranslationAssets(const TranslationConfig& config, data::Vocabulary source_vocabulary,
                                     data::Vocabulary target_vocabulary)
    : text_(config.text()), source_(std::move(source_vocabulary)), target_(std::move(target_vocabulary)) {
  spec_.source_vocab_size = source_.size();
  spec_.target_vocab_size = target_.size();
  spec_.num_steps = config.num_steps;
  spec_.target = {.pad = target_.pad(), .bos = target_.bos(), .eos = target_.eos(), .unk = target_.unk()};
}

std::vector<std::string> TranslationAssets::labels(std::string_view axis) const {
  if (axis == "source") return tokens_of(source_);
  if (axis == "target") return tokens_of(target_);
  return {};
}

std::shared_ptr<const TranslationAssets> TranslationAssets::load(const TranslationConfig& config,
                                                                 const std::filesystem::path& dir) {
  return std::make_shared<TranslationAssets>(config, data::Vocabulary::load(dir / kSourceVocabulary),
                                             data::Vocabulary::load(dir / kTargetVocabulary));
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
  return encode_source(std::move(tokens), source_, spec_.num_steps, is_cut);
}

std::string TranslationAssets::decode(const std::vector<int64_t>& ids) const {
  return data::detokenize(target_.decode(ids));
}

std::pair<at::Tensor, nn::SequenceLayout> TranslationAssets::pad_sources(
    const std::vector<std::vector<int64_t>>& sources) const {
  Padded padded = pad_rows(
      sources.size(), source_.pad(), [&](size_t i) -> const auto& { return sources[i]; });
  auto layout = nn::SequenceLayout::padded(std::move(padded.lengths), padded.tokens.size(1));
  return {std::move(padded.tokens), std::move(layout)};
}

}  // namespace fovea::translation
