#include "fovea/tasks/translation/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/data/batching.h"
#include "fovea/data/script.h"
#include "fovea/data/text.h"
#include "fovea/tasks/histogram.h"
#include "fovea/tasks/translation/dataset.h"

namespace fovea::translation {
namespace {

constexpr double kOddRatio = 3;      // times as long as such a sentence's translation mostly is
constexpr int64_t kLongEnough = 20;  // characters; shorter ones may well differ so much

int64_t characters_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

// Characters of a target for one of the source, mostly.
double usual_ratio(const std::vector<Pair>& pairs) {
  std::vector<double> ratios;
  for (const auto& pair : pairs) {
    ratios.push_back(static_cast<double>(characters_of(pair.target)) /
                     static_cast<double>(std::max<int64_t>(1, characters_of(pair.source))));
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

// The writing that most of the texts of a side are in.
std::string_view usual_script(const std::vector<Pair>& pairs, std::string Pair::*side) {
  std::map<std::string_view, int64_t> counts;
  for (const auto& pair : pairs) {
    if (const auto script = data::script_of(pair.*side); !script.empty()) ++counts[script];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string_view{} : most->first;
}

/// Says of a pair what is doubtful about it.
class PairDoubts {
 public:
  explicit PairDoubts(const std::vector<Pair>& pairs)
      : ratio_(usual_ratio(pairs)),
        source_(usual_script(pairs, &Pair::source)),
        target_(usual_script(pairs, &Pair::target)) {}

  std::string of(const Pair& pair) const {
    if (data::normalize(pair.source) == data::normalize(pair.target)) return "same on both sides";
    for (const auto& [text, usual, side] :
         {std::tuple(&pair.source, source_, "source"), std::tuple(&pair.target, target_, "target")}) {
      const auto script = data::script_of(*text);
      if (!script.empty() && script != usual) return fmt::format("{} in {}, not {}", side, script, usual);
    }
    const int64_t source = characters_of(pair.source), target = characters_of(pair.target);
    if (std::max(source, target) < kLongEnough) return {};
    const double times = static_cast<double>(target) / static_cast<double>(std::max<int64_t>(1, source)) / ratio_;
    if (times > kOddRatio) return "target far longer";
    return times < 1 / kOddRatio ? "source far longer" : "";
  }

 private:
  double ratio_;
  std::string_view source_, target_;
};

struct TokenCounts {
  std::map<std::string, int64_t> frequencies;
  std::vector<int64_t> lengths;
  int64_t running = 0;
};

TokenCounts count_side(const std::vector<Pair>& pairs, std::string Pair::*side, const TranslationConfig& config) {
  TokenCounts counts;
  const bool is_words = config.tokenizer.named.name != "characters";
  for (const auto& pair : pairs) {
    const auto tokens =
        is_words ? data::to_tokens(pair.*side, config.text()) : data::to_characters(pair.*side, config.text());
    for (const auto& token : tokens) ++counts.frequencies[token];
    counts.lengths.push_back(static_cast<int64_t>(tokens.size()));
    counts.running += static_cast<int64_t>(tokens.size());
  }
  return counts;
}

// Unknown tokens of all tokens of a side.
double unknown_of(const std::vector<Pair>& pairs, std::string Pair::*side, const data::Tokenizer& tokenizer) {
  int64_t unknown = 0, all = 0;
  for (const auto& pair : pairs) {
    const auto ids = tokenizer.encode(pair.*side);
    unknown += std::count(ids.begin(), ids.end(), tokenizer.unk());
    all += static_cast<int64_t>(ids.size());
  }
  return all > 0 ? static_cast<double>(unknown) / static_cast<double>(all) : 0;
}

void add_parts(tasks::Report& report, const TranslationData& data) {
  const auto& assets = dynamic_cast<const TranslationAssets&>(*data.assets());
  tasks::Report::Grid grid{.key = "parts",
                           .columns = {{"name", "part"},
                                       {"pairs", "pairs"},
                                       {"trainable", "not too long"},
                                       {"unknown_source", "unknown source tokens"},
                                       {"unknown_target", "unknown target tokens"}},
                           .rows = {}};
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    const auto& pairs = data.pairs(part);
    if (pairs.empty()) continue;
    grid.rows.push_back({std::string(data::part_name(part)), static_cast<int64_t>(pairs.size()), data.size(part),
                         unknown_of(pairs, &Pair::source, assets.source()),
                         unknown_of(pairs, &Pair::target, assets.target())});
  }
  report.grids.push_back(std::move(grid));
  for (const auto& [side, tokenizer] : {std::pair("source", &assets.source()), std::pair("target", &assets.target())}) {
    report.facts.push_back({.key = fmt::format("{}_vocabulary", side),
                            .value = tokenizer->size(),
                            .label = fmt::format("{} vocabulary", side),
                            .text = tokenizer->describe()});
  }
}

}  // namespace

tasks::Report inspect(const tasks::InspectRequest& request) {
  const auto& config = dynamic_cast<const TranslationConfig&>(*request.section);
  const Corpus corpus = config.files.read(config.unify_characters);
  tasks::Report report;
  report.facts = {{.key = "pairs", .value = corpus.counts.kept, .label = "corpus", .text = corpus.describe()},
                  {.key = "lines", .value = corpus.counts.lines, .in_table = false},
                  {.key = "blank_lines", .value = corpus.counts.skipped_blank, .in_table = false},
                  {.key = "one_sided_lines", .value = corpus.counts.skipped_one_sided, .in_table = false}};
  std::set<std::pair<std::string, std::string>> seen;
  int64_t repeated = 0;
  for (const auto& pair : corpus.pairs) repeated += seen.emplace(pair.source, pair.target).second ? 0 : 1;
  report.facts.push_back({.key = "repeated_pairs", .value = repeated, .label = "repeated pairs"});

  const TokenCounts source = count_side(corpus.pairs, &Pair::source, config),
                    target = count_side(corpus.pairs, &Pair::target, config);
  for (const auto& [side, counts] : {std::pair("source", &source), std::pair("target", &target)}) {
    const auto known = std::count_if(counts->frequencies.begin(), counts->frequencies.end(),
                                     [&](const auto& f) { return f.second >= config.min_freq; });
    int64_t covered = 0;
    for (const auto& [token, count] : counts->frequencies) covered += count >= config.min_freq ? count : 0;
    const double coverage =
        counts->running > 0 ? static_cast<double>(covered) / static_cast<double>(counts->running) : 0;
    report.facts.push_back({.key = fmt::format("{}_coverage", side),
                            .value = coverage,
                            .label = side,
                            .text = fmt::format("{}, {} different; {} occur {} or more and cover {:.1f} %",
                                                counted(counts->running, "token"), counts->frequencies.size(), known,
                                                counted(config.min_freq, "time"), 100 * coverage)});
  }
  try {
    const TranslationData data(config, request.seed);
    add_parts(report, data);
    report.warnings = data.warnings();
  } catch (const Error& e) {
    report.warnings.emplace_back(fmt::format("a training would refuse this: {}", e.what()));
  }

  const PairDoubts doubts(corpus.pairs);
  tasks::Report::Grid doubtful{
      .key = "doubtful_pairs",
      .columns = {{"line", "line"}, {"why", "doubtful because"}, {"source", "source"}, {"target", "target"}},
      .rows = {}};
  int64_t num_doubtful = 0;
  for (size_t i = 0; i < corpus.pairs.size(); ++i) {
    const std::string why = doubts.of(corpus.pairs[i]);
    if (why.empty()) continue;
    if (num_doubtful++ < request.listed) {
      doubtful.rows.push_back({corpus.lines[i], why, corpus.pairs[i].source, corpus.pairs[i].target});
    }
  }
  report.facts.push_back({.key = "doubtful", .value = num_doubtful, .label = "doubtful pairs"});
  report.grids.push_back(tasks::histogram("source_lengths", "source tokens", source.lengths));
  report.grids.push_back(tasks::histogram("target_lengths", "target tokens", target.lengths));
  if (num_doubtful > 0) report.grids.push_back(std::move(doubtful));
  tasks::Report::Grid examples{
      .key = "examples", .columns = {{"line", "line"}, {"source", "source"}, {"target", "target"}}, .rows = {}};
  for (const int64_t i : data::shuffled(corpus.counts.kept, request.seed, -2)) {
    if (static_cast<int64_t>(examples.rows.size()) == request.examples) break;
    const auto at = static_cast<size_t>(i);
    examples.rows.push_back({corpus.lines[at], corpus.pairs[at].source, corpus.pairs[at].target});
  }
  report.grids.push_back(std::move(examples));
  return report;
}

}  // namespace fovea::translation
