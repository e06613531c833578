#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/core/progress.h"
#include "fovea/decode/seq2seq.h"
#include "fovea/metrics/bleu.h"
#include "fovea/tasks/report.h"
#include "fovea/tasks/translation/dataset.h"

/// Where a translator fails: scores of bands of sentences and of words.
namespace fovea::translation {

/// The loss of a token of a reference that the model reads as far as before it.
struct TokenLoss {
  int64_t label = 0;
  int64_t likeliest = 0;  // what the model held likeliest in its place
  double loss = 0;        // -log p(label)
};

/// For each pair of the part its tokens, <eos> the last; none for a pair that is too long for the model.
std::vector<std::vector<TokenLoss>> token_losses(const decode::Seq2Seq& model, const TranslationData& data,
                                                 data::Part part, at::Device device, Progress* progress);

/// A part, what the model made of it, and how often tokens occur in training.
struct Judged {
  const std::vector<Pair>& pairs;
  const std::vector<std::string>& translations;
  const std::vector<std::vector<TokenLoss>>& losses;
  metrics::BleuOptions bleu;
};

/// BLEU and loss by the words of the source. Bands hold about as many pairs each; they depend on the sources only, so
/// that models can be compared.
tasks::Report::Grid bands_by_length(const Judged& judged);

/// How often the tokens of one side occur in the training part, by id; 0 for <unk>.
std::vector<int64_t> training_counts(const TranslationData& data, std::vector<int64_t> EncodedPair::*side,
                                     const data::Tokenizer& tokenizer);

/// BLEU and loss by how often the rarest word of the source occurs in training.
tasks::Report::Grid bands_by_rarest(const Judged& judged, const std::vector<int64_t>& counts,
                                    const TranslationAssets& assets);

/// Loss and share of tokens that the model held likeliest, by how often the token occurs in training.
tasks::Report::Grid bands_by_frequency(const Judged& judged, const std::vector<int64_t>& counts);

/// The tokens that cost most in all, and what the model would have written most often instead.
tasks::Report::Grid hardest_words(const Judged& judged, const std::vector<int64_t>& counts,
                                  const data::Tokenizer& tokenizer, size_t most);

}  // namespace fovea::translation
