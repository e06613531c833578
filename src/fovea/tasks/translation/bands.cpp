#include "fovea/tasks/translation/bands.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "fovea/data/loader.h"
#include "fovea/data/text.h"

namespace fovea::translation {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double mean_loss(const std::vector<TokenLoss>& tokens) {
  double sum = 0;
  for (const auto& token : tokens) sum += token.loss;
  return tokens.empty() ? kNothing : sum / static_cast<double>(tokens.size());
}

// "5", "5-9", "1000 or more"
std::string range_text(int64_t low, int64_t high) {
  if (high == std::numeric_limits<int64_t>::max()) return fmt::format("{} or more", low);
  return low == high ? fmt::format("{}", low) : fmt::format("{}-{}", low, high);
}

struct NamedBand {
  std::string name;
  int64_t low = 0, high = 0;  // both belong to it
};

// Bands of frequencies: about four to a power of ten.
std::vector<NamedBand> frequency_bands() {
  constexpr std::array<int64_t, 9> kEdges = {1, 2, 5, 10, 20, 50, 100, 200, 1000};
  std::vector<NamedBand> bands = {{"unknown", 0, 0}};
  for (size_t i = 0; i < kEdges.size(); ++i) {
    const int64_t high = i + 1 < kEdges.size() ? kEdges[i + 1] - 1 : std::numeric_limits<int64_t>::max();
    bands.push_back({range_text(kEdges[i], high), kEdges[i], high});
  }
  return bands;
}

// At most six bands of like size; a small last one joins the one before.
std::vector<NamedBand> length_bands(const std::vector<int64_t>& lengths) {
  constexpr int64_t kBands = 6;
  std::map<int64_t, int64_t> counts;
  for (const int64_t length : lengths) ++counts[length];
  const auto all = static_cast<int64_t>(lengths.size());
  std::vector<NamedBand> bands;
  int64_t in_band = 0, low = 0;
  for (const auto& [length, count] : counts) {
    if (in_band == 0) low = length;
    in_band += count;
    if (in_band * kBands < all) continue;
    bands.push_back({{}, low, length});
    in_band = 0;
  }
  if (in_band * kBands * 2 < all && !bands.empty()) {
    bands.back().high = counts.rbegin()->first;
  } else if (in_band > 0) {
    bands.push_back({{}, low, counts.rbegin()->first});
  }
  for (auto& band : bands) band.name = range_text(band.low, band.high);
  return bands;
}

// Pairs whose value lies in a band, for each band that has some.
tasks::Report::Grid bands_of_pairs(const Judged& judged, const std::vector<int64_t>& values,
                                   const std::vector<NamedBand>& bands, const std::string& key,
                                   const std::string& label) {
  tasks::Report::Grid grid{.key = key,
                           .columns = {{.key = label, .label = label},
                                       {.key = "pairs", .label = "pairs"},
                                       {.key = "bleu", .label = "BLEU", .digits = 2},
                                       {.key = "loss", .label = "loss"}},
                           .rows = {},
                           .bands = tasks::Report::Bands::kOrdered};
  for (const auto& band : bands) {
    std::vector<std::string> translations, references;
    std::vector<TokenLoss> tokens;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] < band.low || values[i] > band.high) continue;
      translations.push_back(judged.translations[i]);
      references.push_back(judged.pairs[i].target);
      tokens.insert(tokens.end(), judged.losses[i].begin(), judged.losses[i].end());
    }
    if (references.empty()) continue;
    const double bleu = metrics::corpus_bleu(translations, references, judged.bleu).score;
    grid.rows.push_back({band.name, static_cast<int64_t>(references.size()), bleu, mean_loss(tokens)});
  }
  return grid;
}

int64_t words_in(const std::string& text) {
  return static_cast<int64_t>(data::tokenize(data::normalize(text)).size());
}

}  // namespace

std::vector<std::vector<TokenLoss>> token_losses(const decode::Seq2Seq& model, const TranslationData& data,
                                                 data::Part part, at::Device device, Progress* progress) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<TokenLoss>> losses(data.pairs(part).size());
  const data::BatchPlan plan = data.plan(part, 0);
  ProgressState shown{.name = "losses of words", .total = static_cast<int64_t>(plan.size())};
  for (const auto& examples : plan) {
    const data::Batch batch = data.batch(part, 0, examples).to(device);
    const TranslationBatch b(batch);
    const at::Tensor log_probs = model.forward(b.source, b.source_layout, b.target, b.target_layout).log_softmax(-1);
    const at::Tensor label = b.label.to(at::kCPU);
    const at::Tensor loss = log_probs.gather(2, b.label.unsqueeze(2)).squeeze(2).neg().to(at::kCPU, at::kDouble);
    const at::Tensor likeliest = log_probs.argmax(2).to(at::kCPU);
    const auto labels = label.accessor<int64_t, 2>(), guesses = likeliest.accessor<int64_t, 2>();
    const auto costs = loss.accessor<double, 2>();
    for (size_t row = 0; row < examples.size(); ++row) {
      const auto example = static_cast<size_t>(examples[row]);
      auto& tokens = losses[data.pairs_of_examples(part)[example]];
      const auto r = static_cast<int64_t>(row),
                 length = static_cast<int64_t>(data.encoded(part)[example].target.size());
      for (int64_t t = 0; t < length; ++t) tokens.push_back({labels[r][t], guesses[r][t], costs[r][t]});
    }
    ++shown.done;
    if (progress != nullptr) progress->update(shown);
  }
  if (progress != nullptr) progress->finish();
  return losses;
}

tasks::Report::Grid bands_by_length(const Judged& judged) {
  std::vector<int64_t> lengths;
  for (const auto& pair : judged.pairs) lengths.push_back(words_in(pair.source));
  return bands_of_pairs(judged, lengths, length_bands(lengths), "by_length", "source words");
}

std::vector<int64_t> training_counts(const TranslationData& data, std::vector<int64_t> EncodedPair::*side,
                                     const data::Tokenizer& tokenizer) {
  std::vector<int64_t> counts(static_cast<size_t>(tokenizer.size()), 0);
  for (const auto& pair : data.encoded(data::Part::kTrain)) {
    for (const int64_t id : pair.*side) ++counts[static_cast<size_t>(id)];
  }
  counts[static_cast<size_t>(tokenizer.unk())] = 0;
  return counts;
}

tasks::Report::Grid bands_by_rarest(const Judged& judged, const std::vector<int64_t>& counts,
                                    const TranslationAssets& assets) {
  std::vector<int64_t> rarest;
  for (const auto& pair : judged.pairs) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const int64_t id : assets.source().encode(pair.source))
      least = std::min(least, counts[static_cast<size_t>(id)]);
    rarest.push_back(least);
  }
  auto grid = bands_of_pairs(judged, rarest, frequency_bands(), "by_rarest", "occurs");
  grid.title = "by how often the rarest word of the source occurs in training";
  return grid;
}

tasks::Report::Grid bands_by_frequency(const Judged& judged, const std::vector<int64_t>& counts) {
  tasks::Report::Grid grid{.key = "by_frequency",
                           .columns = {{.key = "occurs", .label = "occurs"},
                                       {.key = "tokens", .label = "tokens"},
                                       {.key = "loss", .label = "loss"},
                                       {.key = "likeliest", .label = "likeliest"}},
                           .rows = {},
                           .title = "words of the references by how often they occur in training",
                           .bands = tasks::Report::Bands::kOrdered};
  for (const auto& band : frequency_bands()) {
    std::vector<TokenLoss> tokens;
    int64_t right = 0;
    for (const auto& sentence : judged.losses) {
      for (const auto& token : sentence) {
        const int64_t count = counts[static_cast<size_t>(token.label)];
        if (count < band.low || count > band.high) continue;
        tokens.push_back(token);
        right += token.likeliest == token.label ? 1 : 0;
      }
    }
    if (tokens.empty()) continue;
    const auto count = static_cast<int64_t>(tokens.size());
    grid.rows.push_back({band.name, count, mean_loss(tokens), static_cast<double>(right) / static_cast<double>(count)});
  }
  return grid;
}

tasks::Report::Grid hardest_words(const Judged& judged, const std::vector<int64_t>& counts,
                                  const data::Tokenizer& tokenizer, size_t most) {
  struct Word {
    int64_t id = 0, tokens = 0;
    double loss = 0;
    std::map<int64_t, int64_t> instead = {};
  };
  std::map<int64_t, Word> words;
  for (const auto& sentence : judged.losses) {
    for (const auto& token : sentence) {
      Word& word = words[token.label];
      word.id = token.label;
      ++word.tokens;
      word.loss += token.loss;
      if (token.likeliest != token.label) ++word.instead[token.likeliest];
    }
  }
  std::vector<Word> order;
  for (const auto& [id, word] : words) order.push_back(word);
  std::stable_sort(order.begin(), order.end(), [](const Word& a, const Word& b) { return a.loss > b.loss; });
  order.resize(std::min(order.size(), most));
  tasks::Report::Grid grid{.key = "hardest_words",
                           .columns = {{.key = "word", .label = "word"},
                                       {.key = "tokens", .label = "tokens"},
                                       {.key = "occurs", .label = "occurs"},
                                       {.key = "loss", .label = "mean loss"},
                                       {.key = "instead", .label = "likelier"}},
                           .rows = {},
                           .title = "words that cost most in all, and what the model held likelier"};
  for (const auto& word : order) {
    const auto often = std::max_element(word.instead.begin(), word.instead.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    grid.rows.push_back({tokenizer.token(word.id), word.tokens, counts[static_cast<size_t>(word.id)],
                         word.loss / static_cast<double>(word.tokens),
                         often == word.instead.end()
                             ? tasks::Value()
                             : tasks::Value(fmt::format("{} ({})", tokenizer.token(often->first), often->second))});
  }
  return grid;
}

}  // namespace fovea::translation
