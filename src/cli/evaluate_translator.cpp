#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "evaluate.h"
#include "fovea/core/error.h"
#include "fovea/core/table.h"
#include "fovea/metrics/bleu.h"
#include "fovea/train/trainer.h"

namespace fovea::cli {
namespace {

constexpr int64_t kBookBleu = 2;  // d2l prints bleu with k=2

double mean_book_bleu(const std::vector<std::string>& hypotheses, const std::vector<translation::Pair>& pairs,
                      const data::TextOptions& text) {
  double sum = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    sum += metrics::bleu(data::to_tokens(hypotheses[i], text), data::to_tokens(pairs[i].target, text), kBookBleu);
  }
  return sum / static_cast<double>(pairs.size());
}

void print_samples(const std::vector<translation::Pair>& pairs, const std::vector<std::string>& hypotheses, int64_t samples) {
  Table table({.header = {"source", "translation", "reference"}});
  // Spread over the whole part, the same ones each time.
  const auto count = std::min<size_t>(static_cast<size_t>(samples), pairs.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * pairs.size() / count;
    table.add_row({pairs[at].source, hypotheses[at], pairs[at].target});
  }
  std::cout << table.str() << "\n";
}

}  // namespace

int evaluate_translator(const train::LoadedRun& run, decode::Seq2Seq& model, const EvaluateOptions& options) {
  if (options.json && options.samples > 0) fail_usage("--samples prints a table, --json an object: give one of them");
  const auto assets = std::dynamic_pointer_cast<const translation::TranslationAssets>(run.assets);
  if (assets == nullptr) fail_usage("{}: its data is not of sentence pairs", options.run);
  const auto& config = run.config.data.as<translation::TranslationConfig>();
  const data::Part part = options.input.empty() ? options.part() : data::Part::kTest;
  const auto data = options.input.empty()
                        ? std::make_unique<translation::TranslationData>(config, static_cast<uint64_t>(run.config.seed), run.assets)
                        : std::make_unique<translation::TranslationData>(config, translation::read_tsv(options.input).pairs, assets);
  const std::vector<translation::Pair>& pairs = data->pairs(part);
  if (pairs.empty()) {
    fail_usage(
        "{}: there are no {} pairs, the run's configuration holds none out (data.{}.size); choose another --split "
        "or give a file (--input)",
        options.run, data::part_name(part), data::part_name(part));
  }

  const train::Evaluation evaluation = train::evaluate_module(*run.module, *data, part, run.device);
  std::vector<std::string> sources, references;
  for (const auto& pair : pairs) {
    sources.push_back(pair.source);
    references.push_back(pair.target);
  }
  const auto hypotheses = translation::Translator(model, *assets, run.device, options.translator).best(sources);
  const metrics::BleuScore score = metrics::corpus_bleu(hypotheses, references, {.lowercase = assets->lowercase()});
  const double book = mean_book_bleu(hypotheses, pairs, config.text());
  const std::string what = options.input.empty() ? data::part_name(part) : options.input;

  if (options.json) {
    const nlohmann::ordered_json line = {{"run", options.run},
                                         {"checkpoint", run.checkpoint.filename().string()},
                                         {"data", what},
                                         {"pairs", pairs.size()},
                                         {"loss", evaluation.loss},
                                         {"perplexity", std::exp(evaluation.loss)},
                                         {"tokens", evaluation.count},
                                         {"bleu", score.score},
                                         {"bleu_signature", score.signature},
                                         {"d2l_bleu", book}};
    std::cout << line.dump() << "\n";
    return 0;
  }
  if (options.samples > 0) print_samples(pairs, hypotheses, options.samples);
  Table table;
  table.add_row({"checkpoint", run.checkpoint.filename().string()});
  table.add_row({"data", fmt::format("{}, {} pairs", what, pairs.size())});
  const auto left_out = static_cast<int64_t>(pairs.size()) - data->size(part);
  table.add_row({"loss", fmt::format("{:.4f} over {} target tokens{}", evaluation.loss, evaluation.count,
                                     left_out > 0 ? fmt::format(" ({} pairs too long for it, BLEU has them)", left_out)
                                                  : std::string())});
  table.add_row({"perplexity", fmt::format("{:.2f}", std::exp(evaluation.loss))});
  table.add_row({"BLEU", fmt::format("{:.2f}", score.score)});
  table.add_row({"", score.format()});
  table.add_row({"", score.signature});
  table.add_row({"d2l bleu", fmt::format("{:.3f} (k = {}, mean over sentences)", book, kBookBleu)});
  std::cout << table.str();
  return 0;
}

}  // namespace fovea::cli
