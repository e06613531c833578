#include "fovea/tasks/translation/propose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/core/numbers.h"
#include "fovea/core/shell.h"
#include "fovea/data/text.h"
#include "fovea/tasks/translation/corpus.h"
#include "fovea/tasks/translation/spec.h"

namespace fovea::translation {
namespace {

constexpr double kLongestShare = 0.99;  // of the pairs fit into num_steps
constexpr int64_t kShortSteps = 32;
constexpr int64_t kMostSteps = 128;          // attention over more is slow
constexpr double kMostUnknown = 0.02;        // of the running words
constexpr int64_t kCharactersPerToken = 15;  // above: the text has no spaces
constexpr int64_t kLooked = 200000;          // pairs are looked at, at most

bool is_text(const std::string& bytes) {
  return !bytes.empty() && foreign_format(bytes).empty() && bytes.find('\0') == std::string::npos;
}

bool is_number_line(std::string_view line) {
  const size_t tab = line.find('\t');
  return tab != std::string_view::npos && parse_double(line.substr(0, tab)) && parse_double(line.substr(tab + 1));
}

// Why the lines are no pairs; empty where most have two columns that are no numbers.
std::string why_no_pairs(const std::string& text, const std::filesystem::path& file) {
  int64_t lines = 0, with_tab = 0, numbers = 0;
  for (const auto line : data::split_lines(text)) {
    if (data::is_blank(line)) continue;
    ++lines;
    with_tab += line.find('\t') != std::string_view::npos ? 1 : 0;
    numbers += is_number_line(line) ? 1 : 0;
  }
  if (lines == 0) return fmt::format("{} holds blank lines only", file.string());
  if (2 * with_tab <= lines) {
    return fmt::format("{} of {} in {} {} a tab between a source and a target{}", with_tab, counted(lines, "line"),
                       file.string(), with_tab == 1 || lines == 1 ? "has" : "have",
                       with_tab == 0 ? "; name both of two parallel files" : "");
  }
  if (2 * numbers >= lines) return fmt::format("the columns of {} are numbers", file.string());
  return {};
}

// What the tokens of one side are.
struct SideCounts {
  std::unordered_map<std::string, int64_t> frequencies;
  int64_t tokens = 0, characters = 0;

  void add(const std::vector<std::string>& sentence) {
    for (const auto& token : sentence) {
      ++frequencies[token];
      ++tokens;
    }
  }
  int64_t kept(int64_t min_freq) const {
    return std::count_if(frequencies.begin(), frequencies.end(), [=](const auto& f) { return f.second >= min_freq; });
  }
  double unknown_share(int64_t min_freq) const {
    int64_t unknown = 0;
    for (const auto& [token, count] : frequencies) unknown += count < min_freq ? count : 0;
    return tokens > 0 ? static_cast<double>(unknown) / static_cast<double>(tokens) : 0;
  }
};

struct CorpusCounts {
  SideCounts source, target;
  std::vector<int64_t> lengths;  // of the longer side of each pair, <eos> counted
  bool by_characters = false;
};

CorpusCounts count_tokens(const std::vector<Pair>& pairs, bool by_characters) {
  CorpusCounts counts;
  counts.by_characters = by_characters;
  const auto tokens_of = [=](const std::string& text) {
    return by_characters ? data::to_characters(text) : data::to_tokens(text);
  };
  for (size_t i = 0; i < pairs.size() && i < kLooked; ++i) {
    const auto source = tokens_of(pairs[i].source), target = tokens_of(pairs[i].target);
    counts.source.add(source);
    counts.target.add(target);
    counts.source.characters += static_cast<int64_t>(pairs[i].source.size());
    counts.target.characters += static_cast<int64_t>(pairs[i].target.size());
    counts.lengths.push_back(static_cast<int64_t>(std::max(source.size(), target.size())) + 1);
  }
  std::sort(counts.lengths.begin(), counts.lengths.end());
  return counts;
}

int64_t quantile(const std::vector<int64_t>& sorted, double share) {
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(at, 1, sorted.size()) - 1];
}

// The greatest that leaves few running words unknown: rare words are learnt badly, and each costs memory and time.
int64_t choose_min_freq(const CorpusCounts& counts) {
  int64_t chosen = 1;
  for (const int64_t min_freq : {2, 3, 5}) {
    const double unknown = std::max(counts.source.unknown_share(min_freq), counts.target.unknown_share(min_freq));
    if (unknown <= kMostUnknown) chosen = min_freq;
  }
  return chosen;
}

std::string side_text(const SideCounts& side, int64_t min_freq, const char* unit) {
  return fmt::format("{}, {} different ({} occur {}; {:.1f} % unknown)", counted(side.tokens, unit),
                     side.frequencies.size(), side.kept(min_freq),
                     min_freq == 1 ? "once or more" : fmt::format("{} times or more", min_freq),
                     100 * side.unknown_share(min_freq));
}

void add_files(std::vector<train::ProposedSetting>& settings, const std::string& section,
               const std::vector<std::filesystem::path>& files, const tasks::ProposalRequest& request) {
  if (files.size() == 1) {
    settings.push_back({section + ".path", request.yaml_path(files[0]), ""});
  } else {
    settings.push_back({section + ".source_path", request.yaml_path(files[0]), ""});
    settings.push_back({section + ".target_path", request.yaml_path(files[1]), ""});
  }
}

// What is to be a part of its own has to be readable as one.
void check_part(const std::string& section, const std::vector<std::filesystem::path>& files) {
  const std::string option = "--" + section.substr(section.find('.') + 1);
  if (files.size() > 2) {
    fail_usage("{}: expected one file of pairs, or two parallel files, got {}", option, files.size());
  }
  if (files.size() == 2) {
    read_parallel(files[0], files[1]);
    return;
  }
  read_tsv(files[0]);
  const std::string reason = why_no_pairs(read_maybe_gzip(files[0]), files[0]);
  if (!reason.empty()) fail_usage("{}: expected pairs, but {}", option, reason);
}

void add_part(std::vector<train::ProposedSetting>& settings, const std::string& section, int64_t size,
              const std::vector<std::filesystem::path>& files, const tasks::ProposalRequest& request,
              const std::string& why) {
  if (files.empty()) {
    settings.push_back({section + ".size", std::to_string(size), why});
  } else {
    check_part(section, files);
    add_files(settings, section, files, request);
  }
}

void add_warnings(std::vector<std::string>& warnings, const Corpus& corpus, const CorpusCounts& counts) {
  const auto same = std::count_if(corpus.pairs.begin(), corpus.pairs.end(),
                                  [](const Pair& pair) { return pair.source == pair.target; });
  if (2 * same > static_cast<int64_t>(corpus.pairs.size())) {
    warnings.push_back(fmt::format("{} of {} {} their source", same, counted(corpus.pairs.size(), "target"),
                                   same == 1 ? "equals" : "equal"));
  }
  if (counts.lengths.back() > kMostSteps) {
    const auto longer =
        counts.lengths.end() - std::upper_bound(counts.lengths.begin(), counts.lengths.end(), kMostSteps);
    warnings.push_back(fmt::format("{} {} longer than {} tokens; what is longer than data.num_steps is dropped",
                                   counted(longer, "pair"), longer == 1 ? "is" : "are", kMostSteps));
  }
  if (corpus.pairs.size() < 1000) {
    warnings.push_back(
        fmt::format("only {}: a model will learn so few by heart", counted(corpus.pairs.size(), "pair")));
  }
}

}  // namespace

tasks::ProposalOrReason propose(const tasks::ProposalRequest& request) {
  if (request.folder()) return fmt::format("{} is a folder", request.folder()->string());
  if (request.files.empty() || request.files.size() > 2) {
    return fmt::format("expected one file of source<TAB>target lines or two parallel files, got {}",
                       request.files.size());
  }
  std::vector<std::string> texts;
  for (const auto& file : request.files) {
    texts.push_back(read_maybe_gzip(file));
    if (!is_text(texts.back())) {
      return fmt::format("expected text, found in {} {}", file.string(), describe_content(texts.back()));
    }
    data::check_utf8(texts.back(), file.string());
  }
  if (texts.size() == 1) {
    if (std::string reason = why_no_pairs(texts[0], request.files[0]); !reason.empty()) return reason;
  }
  const Corpus corpus = texts.size() == 1
                            ? parse_tsv(texts[0], request.files[0].string())
                            : parse_parallel(texts[0], texts[1], request.files[0].string(), request.files[1].string());
  CorpusCounts counts = count_tokens(corpus.pairs, false);
  const auto& source = counts.source;
  const auto& target = counts.target;
  if (source.characters > kCharactersPerToken * source.tokens ||
      target.characters > kCharactersPerToken * target.tokens) {
    counts = count_tokens(corpus.pairs, true);
  }
  const char* unit = counts.by_characters ? "character" : "word";
  const auto num_pairs = static_cast<int64_t>(corpus.pairs.size());
  // Short sentences cost little: then all of them fit.
  const int64_t most = quantile(counts.lengths, kLongestShare);
  const int64_t longest = counts.lengths.back() <= kShortSteps ? counts.lengths.back() : std::min(most, kMostSteps);
  const int64_t num_steps = std::max<int64_t>((longest + 3) / 4 * 4, 4);
  const int64_t min_freq = choose_min_freq(counts);
  const int64_t validation = request.validation.empty() ? tasks::held_out(num_pairs) : 0;
  const int64_t test = request.test.empty() ? tasks::held_out(num_pairs, 10, 2000) : 0;
  const int64_t training = num_pairs - validation - test;
  const int64_t batch_size = training < 1000 ? 16 : training < 50000 ? 64 : 128;
  const int64_t dropped =
      counts.lengths.end() - std::upper_bound(counts.lengths.begin(), counts.lengths.end(), num_steps);

  tasks::Proposal proposal;
  proposal.facts = {{"corpus", corpus.describe()},
                    {"source", side_text(counts.source, min_freq, unit)},
                    {"target", side_text(counts.target, min_freq, unit)},
                    {"length", fmt::format("half of the pairs have {} at most, 99 % {}, the longest {}",
                                           counted(quantile(counts.lengths, 0.5) - 1, unit),
                                           quantile(counts.lengths, kLongestShare) - 1, counts.lengths.back() - 1)}};
  add_warnings(proposal.warnings, corpus, counts);
  if (validation == 0 && test == 0 && request.validation.empty() && request.test.empty()) {
    proposal.warnings.push_back("the pairs are too few to hold some out; name others to measure on (--test FILE)");
  }
  auto& settings = proposal.settings;
  settings.push_back({"data.name", "translation", ""});
  add_files(settings, "data", request.files, request);
  add_part(settings, "data.validation", validation, request.validation, request,
           "pairs that training is watched on; no source sentence is in two parts");
  add_part(settings, "data.test", test, request.test, request, "pairs that `fovea evaluate` measures on");
  settings.push_back({"data.num_steps", std::to_string(num_steps),
                      fmt::format("{}s per sentence, its end counted; {} of {} {} longer and dropped", unit, dropped,
                                  counted(counts.lengths.size(), "pair"), dropped == 1 ? "is" : "are")});
  if (counts.by_characters) {
    settings.push_back({"data.tokenizer", "{name: characters}", "the text has few spaces to find words by"});
  }
  settings.push_back({"data.min_freq", std::to_string(min_freq),
                      min_freq == 1 ? fmt::format("1: the model knows all {}s that it is trained on", unit)
                                    : fmt::format("{}s that occur less often are unknown to the model", unit)});
  settings.push_back({"data.lowercase", "true", "translations come out in small letters; false keeps capitals"});
  settings.push_back({"data.batch_size", std::to_string(batch_size), ""});
  proposal.spec = std::make_shared<TranslationSpec>();
  proposal.amount = {
      .examples = training,
      .items = static_cast<int64_t>(static_cast<double>(counts.target.tokens) * static_cast<double>(training) /
                                    static_cast<double>(counts.lengths.size())),
      .steps_per_epoch = std::max<int64_t>((training + batch_size - 1) / batch_size, 1)};
  const auto plain = std::find_if(corpus.pairs.begin(), corpus.pairs.end(),
                                  [](const Pair& pair) { return pair.source.find('\'') == std::string::npos; });
  proposal.example = shell_quoted(plain == corpus.pairs.end() ? corpus.pairs.front().source : plain->source);
  return proposal;
}

}  // namespace fovea::translation
