#include "fovea/tasks/translation/attend.h"

#include <ATen/ATen.h>

#include "fovea/core/error.h"
#include "fovea/decode/search.h"
#include "fovea/tasks/attention.h"
#include "fovea/tasks/translation/assets.h"
#include "fovea/tasks/translation/book_bleu.h"
#include "fovea/tasks/translation/dataset.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

struct AttendOptions : config::Section {
  std::string target;
  int64_t beam = 1;
  void fields(config::Fields& f) override {
    f("target", target, "a translation to show the attention for; empty: the model's own");
    f("beam", beam, "hypotheses kept where the model translates; 1 is greedy search",
      config::range(1, decode::kMaxBeam));
  }
};

std::vector<std::string> tokens_of(const std::vector<int64_t>& ids, const data::Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) tokens.push_back(tokenizer.token(id));
  return tokens;
}

// The ids of the target, without <bos> and <eos>.
std::vector<int64_t> target_ids(const AttendOptions& options, const decode::Seq2Seq& model,
                                const TranslationAssets& assets, const at::Tensor& source,
                                const nn::SequenceLayout& layout) {
  const int64_t most = std::min(assets.spec().num_steps, model.max_len());
  if (options.target.empty()) {
    const decode::SearchOptions search{.beam = options.beam, .max_len = most};
    return decode::search(model, source, layout, assets.spec().target, search).front().front().tokens;
  }
  data::check_line(options.target);
  auto ids = assets.target().encode(options.target);
  if (static_cast<int64_t>(ids.size()) >= most) {
    fail_usage("--target: {} tokens are too many, the model writes at most {} and their <eos>", ids.size(), most - 1);
  }
  return ids;
}

// What encoder and decoder look at while they read `source`, which ends in <eos>, and write `written`, which has none.
std::vector<tasks::Report::Attention> attentions_of(const decode::Seq2Seq& model, const TranslationAssets& assets,
                                                    at::Device device, const std::vector<int64_t>& source_ids,
                                                    const std::vector<int64_t>& written) {
  const auto [source, padded] = assets.pad_sources({source_ids});
  std::vector<int64_t> read = written, labels = written;
  read.insert(read.begin(), assets.target().bos());
  labels.push_back(assets.target().eos());
  const at::Tensor target = at::tensor(read, at::kLong).unsqueeze(0).to(device);
  nn::AttentionRecorder recorder;
  model.forward(source.to(device), padded.to(device), target, nn::SequenceLayout::full(target), &recorder);

  const auto source_tokens = tokens_of(source_ids, assets.source());
  const auto read_tokens = tokens_of(read, assets.target()), written_tokens = tokens_of(labels, assets.target());
  std::vector<tasks::Report::Attention> attentions;
  for (const auto& [path, weights] : recorder.records()) {
    const bool is_encoder = path.starts_with("encoder.");
    // The book's names: attention1 is the decoder's look at itself, any other one its look at the source.
    const bool is_decoder = !is_encoder && path.ends_with(".attention1");
    attentions.push_back(tasks::described(path,
                                          is_encoder   ? "encoder"
                                          : is_decoder ? "decoder"
                                                       : "cross",
                                          weights[0], is_encoder ? source_tokens : written_tokens,
                                          is_decoder ? read_tokens : source_tokens));
  }
  return attentions;
}

}  // namespace

std::shared_ptr<config::Section> attend_options() {
  return std::make_shared<AttendOptions>();
}

tasks::Report attend(const train::LoadedRun& run, const tasks::AttendRequest& request) {
  const at::NoGradGuard no_grad;
  const auto& options = dynamic_cast<const AttendOptions&>(*request.options);
  const auto& model = tasks::contract_of<decode::Seq2Seq>(*run.module, "translation");
  const auto& assets = dynamic_cast<const TranslationAssets&>(*run.assets);
  const std::string& sentence = tasks::only_input(request.inputs, "sentence");
  data::check_line(sentence);
  tasks::Report report;
  bool is_cut = false;
  const std::vector<int64_t> source_ids = assets.encode(sentence, &is_cut);
  if (source_ids.empty()) fail_usage("the sentence is blank: there is nothing to look at");
  if (is_cut) {
    report.warnings.push_back(
        fmt::format("the sentence is longer than {} tokens (data.num_steps) and cut", assets.spec().num_steps));
  }
  const auto [source, padded] = assets.pad_sources({source_ids});
  const at::Tensor on_device = source.to(run.device);
  const nn::SequenceLayout layout = padded.to(run.device);
  const std::vector<int64_t> written = target_ids(options, model, assets, on_device, layout);

  report.attentions = attentions_of(model, assets, run.device, source_ids, written);
  tasks::check_recorded(report.attentions, run.config.model.name);
  report.facts = {{.key = "source", .value = sentence},
                  {.key = options.target.empty() ? "translation" : "target", .value = assets.decode(written)}};
  return report;
}

tasks::Examples examples(const train::LoadedRun& run, const tasks::ExamplesRequest& request) {
  const at::NoGradGuard no_grad;
  const auto& model = tasks::contract_of<decode::Seq2Seq>(*run.module, "translation");
  const auto& assets = dynamic_cast<const TranslationAssets&>(*run.assets);
  const auto evaluated = tasks::load_part(run, {.part = request.part});
  const auto& pairs = dynamic_cast<const TranslationData&>(*evaluated.data).pairs(evaluated.part);
  tasks::Examples found{.score_name = "d2l's bleu of the sentence (k = 2)"};
  std::vector<std::string> sources;
  for (const int64_t i : tasks::spread_over(static_cast<int64_t>(pairs.size()), request.examples)) {
    const Pair& pair = pairs[static_cast<size_t>(i)];
    found.examples.push_back({.input = pair.source, .expected = pair.target, .predicted = {}});
    sources.push_back(pair.source);
  }
  const auto translations = Translator(model, assets, run.device, {}).best(sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    auto& example = found.examples[i];
    example.predicted = translations[i];
    example.score = book_bleu(translations[i], example.expected, assets.text());
  }
  const auto most = static_cast<size_t>(std::min(assets.spec().num_steps, model.max_len()) - 1);
  for (const size_t i : tasks::worth_explaining(found.examples, request.explained)) {
    auto& example = found.examples[i];
    const auto source_ids = assets.encode(example.input);
    auto written = assets.target().encode(example.predicted);
    if (source_ids.empty()) continue;
    written.resize(std::min(written.size(), most));
    example.attentions = attentions_of(model, assets, run.device, source_ids, written);
  }
  return found;
}

}  // namespace fovea::translation
