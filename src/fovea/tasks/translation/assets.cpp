#include "fovea/tasks/translation/assets.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/tasks/translation/padding.h"

namespace fovea::translation {
namespace {

constexpr const char* kSourceFile = "source.vocab";
constexpr const char* kTargetFile = "target.vocab";

std::vector<std::string> tokens_of(const data::Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (int64_t id = 0; id < tokenizer.size(); ++id) tokens.push_back(tokenizer.token(id));
  return tokens;
}

void check_same_tokenizer(const char* side, const data::Tokenizer& now, const data::Tokenizer& then) {
  if (now == then) return;
  if (now.name() != then.name()) {
    fail_usage("the {} tokenizer is not that of the checkpoint: it was {}, now {}", side, then.name(), now.name());
  }
  for (int64_t id = 0; id < std::min(now.size(), then.size()); ++id) {
    if (now.token(id) != then.token(id)) {
      fail_usage(
          "the {} vocabulary is not that of the checkpoint: token {} was '{}', now '{}' ({} and {} tokens); has "
          "the corpus changed?",
          side, id, then.token(id), now.token(id), then.size(), now.size());
    }
  }
  if (now.size() != then.size()) {
    fail_usage("the {} vocabulary is not that of the checkpoint: it had {} tokens, now {}; has the corpus changed?",
               side, then.size(), now.size());
  }
  fail_usage("the {} tokenizer is not that of the checkpoint: the tokens are the same, but it cuts text otherwise",
             side);
}

}  // namespace

TranslationAssets::TranslationAssets(const TranslationConfig& config, std::shared_ptr<const data::Tokenizer> source,
                                     std::shared_ptr<const data::Tokenizer> target)
    : text_(config.text()), source_(std::move(source)), target_(std::move(target)) {
  spec_.source_vocab_size = source_->size();
  spec_.target_vocab_size = target_->size();
  spec_.num_steps = config.num_steps;
  spec_.target = {.pad = target_->pad(), .bos = target_->bos(), .eos = target_->eos(), .unk = target_->unk()};
}

std::vector<std::string> TranslationAssets::labels(std::string_view axis) const {
  if (axis == "source") return tokens_of(*source_);
  if (axis == "target") return tokens_of(*target_);
  return {};
}

std::shared_ptr<const TranslationAssets> TranslationAssets::load(const TranslationConfig& config,
                                                                 const std::filesystem::path& dir) {
  const auto load = [&](const char* file) { return config.tokenizer.load(config.tokenizer_options(), dir / file); };
  return std::make_shared<TranslationAssets>(config, load(kSourceFile), load(kTargetFile));
}

void TranslationAssets::save(const std::filesystem::path& dir) const {
  source_->save(dir / kSourceFile);
  target_->save(dir / kTargetFile);
}

void TranslationAssets::check_same(const data::DataAssets& saved) const {
  const auto* other = dynamic_cast<const TranslationAssets*>(&saved);
  if (other == nullptr) fail_usage("the checkpoint is not of a translation model");
  check_same_tokenizer("source", *source_, *other->source_);
  check_same_tokenizer("target", *target_, *other->target_);
}

std::vector<int64_t> TranslationAssets::encode(std::string_view sentence, bool* is_cut) const {
  return encode_source(sentence, *source_, spec_.num_steps, is_cut);
}

std::string TranslationAssets::decode(const std::vector<int64_t>& ids) const {
  return target_->decode(ids);
}

std::pair<at::Tensor, nn::SequenceLayout> TranslationAssets::pad_sources(
    const std::vector<std::vector<int64_t>>& sources) const {
  Padded padded = pad_rows(
      sources.size(), source_->pad(), [&](size_t i) -> const auto& { return sources[i]; });
  auto layout = nn::SequenceLayout::padded(std::move(padded.lengths), padded.tokens.size(1));
  return {std::move(padded.tokens), std::move(layout)};
}

}  // namespace fovea::translation
