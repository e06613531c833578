#include "fovea/tasks/translation/task.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "fovea/config/dump.h"
#include "fovea/core/counted.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/output.h"
#include "fovea/tasks/translation/attend.h"
#include "fovea/tasks/translation/bands.h"
#include "fovea/tasks/translation/book_bleu.h"
#include "fovea/tasks/translation/dataset.h"
#include "fovea/tasks/translation/inspect.h"
#include "fovea/tasks/translation/propose.h"
#include "fovea/tasks/translation/script.h"
#include "fovea/tasks/translation/translator.h"
#include "fovea/train/checkpoint.h"

namespace fovea::translation {
namespace {

constexpr const char* kName = "translation";
constexpr const char *kByLength = "length", *kByFrequency = "frequency";
constexpr size_t kHardestWords = 10;

struct EvaluateOptions : config::Section {
  TranslatorOptions translator;
  int64_t samples = 0;
  std::optional<std::string> by;
  std::optional<std::filesystem::path> write_pairs;
  void fields(config::Fields& f) override {
    translator.search_fields(f);
    f("samples", samples, "print this many translations beside their references", config::at_least(0));
    f("by", by,
      "scores in bands: by the length of the sources, or by the frequency of words in training, with the words that "
      "cost most",
      config::choice({kByLength, kByFrequency}));
    f("write_pairs", write_pairs, "file to write the pairs into: source<TAB>target<TAB>translation, one pair a line");
  }
};

const TranslationAssets& assets_of(const data::DataAssets& assets) {
  return dynamic_cast<const TranslationAssets&>(assets);
}

// The sources and the targets of pairs.
struct Sides {
  std::vector<std::string> sources, references;
  explicit Sides(const std::vector<Pair>& pairs) {
    for (const auto& pair : pairs) {
      sources.push_back(pair.source);
      references.push_back(pair.target);
    }
  }
};

double mean_book_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                      const data::TextOptions& text) {
  double sum = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    sum += book_bleu(hypotheses[i], references[i], text);
  }
  return sum / static_cast<double>(references.size());
}

// Spread over the whole part, the same ones each time.
tasks::Report::Grid sample_grid(const std::vector<Pair>& pairs, const std::vector<std::string>& hypotheses,
                                int64_t samples) {
  tasks::Report::Grid grid{
      .key = "samples",
      .columns = {{"source", "source"}, {"translation", "translation"}, {"reference", "reference"}},
      .rows = {},
      .comes_first = true};
  const auto count = std::min<size_t>(static_cast<size_t>(samples), pairs.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * pairs.size() / count;
    grid.rows.push_back({pairs[at].source, hypotheses[at], pairs[at].target});
  }
  return grid;
}

tasks::EvaluationData load_data(const train::LoadedRun& run, const tasks::EvaluateRequest& request) {
  if (request.files.empty()) return tasks::load_part(run, request);
  const auto& config = run.config.data.as<TranslationConfig>();
  const bool unify = config.unify_characters;
  if (request.files.size() > 2) fail_usage("--input: expected one file of pairs or two parallel files");
  const Corpus corpus = request.files.size() == 1 ? read_tsv(request.files[0], unify)
                                                  : read_parallel(request.files[0], request.files[1], unify);
  return tasks::of_files(
      request, std::make_unique<TranslationData>(config, corpus.pairs,
                                                 std::dynamic_pointer_cast<const TranslationAssets>(run.assets)));
}

metrics::BleuOptions bleu_options(const TranslationAssets& assets) {
  return {.lowercase = assets.text().lowercase, .unify = assets.text().unify};
}

// Where the pairs go; checked before the work.
std::filesystem::path pairs_file(const EvaluateOptions& options, const train::LoadedRun& run,
                                 const tasks::EvaluateRequest& request) {
  Output output{.path = *options.write_pairs,
                .option = "--write-pairs",
                .overwrite = request.overwrite,
                .sources = {request.files.begin(), request.files.end()}};
  const auto checkpoints = run.checkpoint.parent_path();
  output.sources.insert(output.sources.end(), {checkpoints, checkpoints.parent_path() / train::kConfigFile});
  for (const auto& setting : config::path_settings(*run.config.data.section)) {
    output.sources.insert(output.sources.end(), setting.paths.begin(), setting.paths.end());
  }
  return check_output(output);
}

// Tabs inside a sentence, which parallel files may hold, become spaces.
void write_pairs(const std::filesystem::path& file, const Sides& sides, const std::vector<std::string>& translations) {
  std::string lines;
  for (size_t i = 0; i < translations.size(); ++i) {
    for (const std::string& text : {sides.sources[i], sides.references[i], translations[i]}) {
      lines += (lines.empty() || lines.back() == '\n' ? "" : "\t") + one_line(text);
    }
    lines += '\n';
  }
  replace_file(file, lines);
}

std::vector<tasks::Report::Grid> band_grids(const std::string& by, const train::LoadedRun& run,
                                            const tasks::EvaluationData& evaluated,
                                            const std::vector<std::string>& hypotheses, Progress* progress) {
  const auto& data = dynamic_cast<const TranslationData&>(*evaluated.data);
  const TranslationAssets& assets = assets_of(*run.assets);
  const auto losses =
      token_losses(tasks::contract_of<decode::Seq2Seq>(*run.module, kName), data, evaluated.part, run.device, progress);
  const Judged judged{data.pairs(evaluated.part), hypotheses, losses, bleu_options(assets)};
  if (by == kByLength) return {bands_by_length(judged)};
  const auto trained_on = run.config.make_data(run.assets);
  const auto& training = dynamic_cast<const TranslationData&>(*trained_on);
  const auto sources = training_counts(training, &EncodedPair::source, assets.source());
  const auto targets = training_counts(training, &EncodedPair::target, assets.target());
  return {bands_by_frequency(judged, targets), bands_by_rarest(judged, sources, assets),
          hardest_words(judged, targets, assets.target(), kHardestWords)};
}

tasks::Report evaluate(const train::LoadedRun& run, const tasks::EvaluateRequest& request) {
  const auto& options = dynamic_cast<const EvaluateOptions&>(*request.options);
  const auto& model = tasks::contract_of<decode::Seq2Seq>(*run.module, kName);
  const TranslationAssets& assets = assets_of(*run.assets);
  const auto pairs_path = options.write_pairs ? pairs_file(options, run, request) : std::filesystem::path();
  const auto evaluated = load_data(run, request);
  const auto& data = dynamic_cast<const TranslationData&>(*evaluated.data);
  const std::vector<Pair>& pairs = data.pairs(evaluated.part);
  const Translator translator(model, assets, run.device, options.translator);
  const train::Evaluation evaluation =
      train::evaluate_module(*run.module, data, evaluated.part, run.device, request.progress);
  const Sides sides(pairs);
  const auto hypotheses = translator.best(sides.sources, request.progress);
  if (request.progress != nullptr) request.progress->finish();
  if (options.write_pairs) write_pairs(pairs_path, sides, hypotheses);
  const metrics::BleuScore score = metrics::corpus_bleu(hypotheses, sides.references, bleu_options(assets));
  const double book = mean_book_bleu(hypotheses, sides.references, assets.text());

  const double loss = evaluation.value("loss");
  const auto count = static_cast<int64_t>(pairs.size()), left_out = count - data.size(evaluated.part);
  const std::string too_long =
      left_out > 0 ? fmt::format(" ({} too long for it, BLEU has them)", counted(left_out, "pair")) : std::string();
  tasks::Report report;
  report.facts = evaluated.facts(count, "pairs");
  report.facts.insert(
      report.facts.end(),
      {{.key = "loss",
        .value = loss,
        .text = evaluation.count > 0 ? fmt::format("{:.4f} over {} target tokens{}", loss, evaluation.count, too_long)
                                     : "-" + too_long},
       {.key = "perplexity",
        .value = std::exp(loss),
        .text = evaluation.count > 0 ? fmt::format("{:.2f}", std::exp(loss)) : "-"},
       {.key = "tokens", .value = evaluation.count, .in_table = false},
       {.key = "bleu", .value = score.score, .label = "BLEU", .text = fmt::format("{:.2f}", score.score)},
       {.key = {}, .text = score.format()},
       {.key = {}, .text = score.signature},
       {.key = "bleu_signature", .value = score.signature, .in_table = false},
       {.key = "d2l_bleu",
        .value = book,
        .label = "d2l bleu",
        .text = fmt::format("{:.3f} (k = {}, mean over sentences)", book, kBookBleu)}});
  if (!score.warning.empty()) report.warnings.push_back(score.warning);
  if (options.by) report.grids = band_grids(*options.by, run, evaluated, hypotheses, request.progress);
  if (options.samples > 0) report.grids.push_back(sample_grid(pairs, hypotheses, options.samples));
  return report;
}

// Greedy, as a look at a training that is under way should be quick.
train::Judge judge() {
  return {.measures = {{.name = "bleu", .better = train::Measure::Better::kHigher, .digits = 2}},
          .run = [](const train::Module& module, const data::DataModule& data, data::Part part, at::Device device) {
            const auto& pairs = dynamic_cast<const TranslationData&>(data).pairs(part);
            const TranslationAssets& assets = assets_of(*data.assets());
            const Translator translator(tasks::contract_of<decode::Seq2Seq>(module, kName), assets, device, {});
            const Sides sides(pairs);
            return std::vector<double>{
                metrics::corpus_bleu(translator.best(sides.sources), sides.references, bleu_options(assets)).score};
          }};
}

class TranslationPredictor : public tasks::Predictor {
 public:
  TranslationPredictor(const train::LoadedRun& run, const TranslatorOptions& options)
      : translator_(tasks::contract_of<decode::Seq2Seq>(*run.module, kName), assets_of(*run.assets), run.device,
                    options) {}

  std::vector<tasks::Prediction> predict(const std::vector<std::string>& sentences) const override {
    std::vector<tasks::Prediction> predictions(sentences.size());
    const auto [readable, places] = tasks::read_each(sentences, "source", predictions, [](const std::string& sentence) {
      data::check_line(sentence);
      return sentence;
    });
    const auto translations = translator_.translate(readable);
    for (size_t i = 0; i < places.size(); ++i) predictions[places[i]] = describe_one(readable[i], translations[i]);
    return predictions;
  }
  // Some batches at a time, so that sentences of like length find each other.
  size_t batch_size() const override { return static_cast<size_t>(translator_.options().batch_size) * 8; }

 private:
  tasks::Prediction describe_one(const std::string& source, const Translation& translation) const {
    tasks::Prediction prediction;
    nlohmann::ordered_json line = {{"source", source}, {"translations", nlohmann::json::array()}};
    // One line for each input: the candidates are its columns.
    for (const auto& c : translation.candidates) {
      if (&c != &translation.candidates.front()) prediction.text += '\t';
      prediction.text += c.text;
      line["translations"].push_back(
          {{"text", c.text}, {"score", c.score}, {"log_probability", c.log_probability}, {"finished", c.finished}});
    }
    if (translation.is_cut) {
      line["source_cut"] = true;
      prediction.warning = fmt::format("longer than {} tokens (data.num_steps) and cut", translator_.num_steps());
    }
    prediction.json = line.dump();
    return prediction;
  }

  Translator translator_;
};

}  // namespace

const tasks::Task& task() {
  static const tasks::Task task{
      .name = kName,
      .summary = "sentences into sentences",
      .verb = "translate",
      .input = "sentence",
      .reads_lines = true,
      .example = "fovea translate runs/quickstart \"go .\"",
      .datasets = {data::data_entry<TranslationData, TranslationConfig, TranslationAssets>(
          kName, "pairs of sentences (d2l 10.5)")},
      .evaluate_options = [] { return std::make_shared<EvaluateOptions>(); },
      .predict_options = [] { return std::make_shared<TranslatorOptions>(); },
      .judge = judge,
      .evaluate = evaluate,
      .predictor =
          [](const train::LoadedRun& run, const config::Section& options) {
            return std::make_unique<TranslationPredictor>(run, dynamic_cast<const TranslatorOptions&>(options));
          },
      .examples = examples,
      .attend = attend,
      .attend_options = attend_options,
      .script =
          [](const train::Module& module, const data::DataAssets& assets) {
            return script_recipe(tasks::contract_of<decode::Seq2Seq>(module, kName), assets_of(assets));
          },
      .propose = propose,
      .inspect = inspect};
  return task;
}

}  // namespace fovea::translation
