#include "fovea/tasks/translation/translator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "fovea/config/checker.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"

namespace fovea::translation {

void TranslatorOptions::search_fields(config::Fields& f) {
  f("beam", search.beam, "hypotheses kept; 1 is greedy search", config::range(1, decode::kMaxBeam));
  f("length_penalty", search.length_penalty, "alpha: ranked by log-probability / length^alpha", config::at_least(0));
  f("max_len", max_len, "maximum length of a translation in tokens; null: data.num_steps", config::at_least(1));
  f("batch_size", batch_size, "sentences at a time", config::range(1, 65536));
}

void TranslatorOptions::fields(config::Fields& f) {
  search_fields(f);
  f("n_best", search.n_best, "translations of each sentence, separated by tabs", config::range(1, decode::kMaxBeam));
}

void TranslatorOptions::check(const config::Checker& c) const {
  if (search.n_best > search.beam) {
    c.fail("n_best", "n-best must not be above the beam, got {} with a beam of {}", search.n_best, search.beam);
  }
}

Translator::Translator(const decode::Seq2Seq& model, const TranslationAssets& assets, at::Device device,
                       const TranslatorOptions& options)
    : model_(model), assets_(assets), device_(device), options_(options) {
  options_.search.max_len = options_.max_len.value_or(num_steps());
  if (options_.search.max_len > model.max_len()) {
    fail_usage("the greatest length is {}, but the model has {} (model.max_len)", options_.search.max_len,
               counted(model.max_len(), "position"));
  }
  if (options_.batch_size < 1) fail_usage("the batch size must be at least 1, got {}", options_.batch_size);
  decode::check_search(options_.search);
}

std::vector<Translation> Translator::translate(const std::vector<std::string>& sentences, Progress* progress) const {
  std::vector<Translation> translations(sentences.size());
  std::vector<std::vector<int64_t>> sources(sentences.size());
  for (size_t i = 0; i < sentences.size(); ++i) {
    sources[i] = assets_.encode(sentences[i], &translations[i].is_cut);
  }
  // Sentences of like length together: little padding, and short ones do not wait for long ones.
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  const auto batch_size = static_cast<size_t>(options_.batch_size);
  ProgressState shown{.name = "translating", .total = static_cast<int64_t>(sentences.size())};
  for (size_t begin = 0; begin < order.size(); begin += batch_size) {
    const size_t end = std::min(order.size(), begin + batch_size);
    std::vector<std::vector<int64_t>> rows;
    for (size_t i = begin; i < end; ++i) rows.push_back(sources[order[i]]);
    const auto [tokens, layout] = assets_.pad_sources(rows);
    const auto found =
        decode::search(model_, tokens.to(device_), layout.to(device_), assets_.spec().target, options_.search);
    for (size_t i = begin; i < end; ++i) {
      for (const decode::Hypothesis& h : found[i - begin]) {
        translations[order[i]].candidates.push_back({assets_.decode(h.tokens), h.log_probability, h.score, h.finished});
      }
    }
    shown.done = static_cast<int64_t>(end);
    if (progress != nullptr) progress->update(shown);
  }
  return translations;
}

std::vector<std::string> Translator::best(const std::vector<std::string>& sentences, Progress* progress) const {
  std::vector<std::string> texts;
  texts.reserve(sentences.size());
  for (auto& translation : translate(sentences, progress))
    texts.push_back(std::move(translation.candidates.front().text));
  return texts;
}

}  // namespace fovea::translation
