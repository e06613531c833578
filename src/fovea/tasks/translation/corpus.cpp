#include "fovea/tasks/translation/corpus.h"

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/text.h"

#include <algorithm>
#include <array>

namespace fovea::translation {
namespace {

std::vector<std::string_view> checked_lines(std::string_view text, const std::string& name) {
  return data::split_lines(data::check_utf8(text, name));
}

bool in_quotes(std::string_view field) {
  return field.size() >= 2 && field.front() == '"' && field.back() == '"';
}

/// In quotes, with the doubled ones inside that only CSV writes: "He said ""no""."
bool is_csv(std::string_view field) {
  return in_quotes(field) && field.size() > 4 &&
         field.substr(1, field.size() - 2).find("\"\"") != std::string_view::npos;
}

/// Keeps the pair if both sides say something, and counts.
void add(Corpus& corpus, std::string_view source, std::string_view target, bool unify) {
  const bool has_source = !data::is_blank(source, unify);
  const bool has_target = !data::is_blank(target, unify);
  ++corpus.counts.lines;
  if (has_source && has_target) {
    ++corpus.counts.kept;
    corpus.pairs.push_back({std::string(source), std::string(target)});
    corpus.lines.push_back(corpus.counts.lines);
  } else if (has_source || has_target) {
    ++corpus.counts.skipped_one_sided;
  } else {
    ++corpus.counts.skipped_blank;
  }
}

constexpr auto kColumnNames = std::to_array<std::string_view>(
    {"ar",        "chinese",   "cmn",     "cs",          "czech",    "de",        "deu",    "dutch",   "en",
     "eng",       "english",   "es",      "fi",          "fr",       "fra",       "french", "german",  "hindi",
     "input",     "it",        "italian", "ja",          "japanese", "ko",        "korean", "label",   "nl",
     "output",    "pl",        "polish",  "portuguese",  "pt",       "reference", "ru",     "russian", "sentence",
     "sentence1", "sentence2", "source",  "spa",         "spanish",  "src",       "sv",     "swedish", "target",
     "text",      "tgt",       "tr",      "translation", "trg",      "turkish",   "uk",     "zh"});

// In CSV's quotes or without.
bool is_column_name(std::string_view field) {
  const std::string name = data::lower(data::normalize(in_quotes(field) ? field.substr(1, field.size() - 2) : field));
  return std::find(kColumnNames.begin(), kColumnNames.end(), name) != kColumnNames.end();
}

}  // namespace

std::vector<std::string> doubts(const Corpus& corpus) {
  std::vector<std::string> found;
  const ReadCounts& counts = corpus.counts;
  const int64_t skipped = counts.skipped_blank + counts.skipped_one_sided;
  if (2 * skipped > counts.lines) {
    found.push_back(fmt::format("{} of {} lines hold no pair: {} are blank, {} have a source or a target only", skipped,
                                counts.lines, counts.skipped_blank, counts.skipped_one_sided));
  }
  const auto count = [&](const auto& holds) {
    return static_cast<int64_t>(std::count_if(corpus.pairs.begin(), corpus.pairs.end(), holds));
  };
  const int64_t same = count([](const Pair& pair) { return pair.source == pair.target; });
  if (2 * same > counts.kept) {
    found.push_back(fmt::format("in {} of {} the target is the source itself: is a column or a file given twice?", same,
                                counted(counts.kept, "pair")));
  }
  const Pair& first = corpus.pairs.front();
  if (is_column_name(first.source) && is_column_name(first.target)) {
    found.push_back(fmt::format(
        "the first line, \"{}\" and \"{}\", seems to name columns, and is taken for a pair; remove it if it does",
        data::excerpt(first.source), data::excerpt(first.target)));
  }
  const int64_t quoted = count([](const Pair& pair) { return in_quotes(pair.source) && in_quotes(pair.target); });
  const int64_t doubled = count([](const Pair& pair) { return is_csv(pair.source) || is_csv(pair.target); });
  if (2 * quoted > counts.kept || doubled > 0) {
    found.push_back(fmt::format(
        "CSV's quotes are around {}, and are taken for text; if they are none of it, write the file without "
        "them, with tabs between the fields",
        counted(std::max(quoted, doubled), "pair")));
  }
  return found;
}

std::string Corpus::describe() const {
  std::string text = fmt::format("{}: {} kept", counted(counts.lines, "line"), counted(counts.kept, "pair"));
  if (counts.skipped_blank + counts.skipped_one_sided > 0) {
    text += fmt::format(", {} blank and {} one-sided skipped", counts.skipped_blank, counts.skipped_one_sided);
  }
  return text;
}

Corpus parse_tsv(std::string_view text, const std::string& name, bool unify) {
  constexpr char kTab = '\t';
  const std::vector<std::string_view> lines = checked_lines(text, name);
  if (lines.empty()) fail_usage("{}: expected lines of source<TAB>target, found an empty file", name);
  Corpus corpus;
  for (const std::string_view line : lines) {
    const size_t source_end = std::min(line.find(kTab), line.size());
    std::string_view target = line.substr(std::min(source_end + 1, line.size()));
    target = target.substr(0, target.find(kTab));
    add(corpus, line.substr(0, source_end), target, unify);
  }
  if (!corpus.pairs.empty()) return corpus;

  const auto has_tab = [](std::string_view line) { return line.find(kTab) != std::string_view::npos; };
  const auto has_comma = [](std::string_view line) { return line.find(',') != std::string_view::npos; };
  if (std::none_of(lines.begin(), lines.end(), has_tab)) {
    const auto shown =
        std::find_if_not(lines.begin(), lines.end(), [&](auto line) { return data::is_blank(line, unify); });
    fail_usage("{}: expected source<TAB>target on each line, found no tab in {}{}{}", name,
               counted(corpus.counts.lines, "line"),
               shown == lines.end() ? std::string() : fmt::format(", e.g. \"{}\"", data::excerpt(*shown)),
               std::all_of(lines.begin(), lines.end(), has_comma)
                   ? "; if it is CSV, write it with tabs and without quotes"
                   : "");
  }
  fail_usage("{}: expected at least one line with a source and a target, found none in {}", name, corpus.describe());
}

Corpus parse_parallel(std::string_view source, std::string_view target, const std::string& source_name,
                      const std::string& target_name, bool unify) {
  const std::vector<std::string_view> sources = checked_lines(source, source_name);
  const std::vector<std::string_view> targets = checked_lines(target, target_name);
  if (sources.size() != targets.size()) {
    fail_usage("expected as many lines in {} as in {}, found {} and {}", source_name, target_name, sources.size(),
               targets.size());
  }
  if (sources.empty()) fail_usage("{} and {}: expected sentences, found two empty files", source_name, target_name);
  Corpus corpus;
  for (size_t i = 0; i < sources.size(); ++i) add(corpus, sources[i], targets[i], unify);
  if (corpus.pairs.empty()) {
    fail_usage("{} and {}: expected at least one line with a source and a target, found none in {}", source_name,
               target_name, corpus.describe());
  }
  return corpus;
}

Corpus read_tsv(const std::filesystem::path& path, bool unify) {
  return parse_tsv(read_maybe_gzip(path), path.string(), unify);
}

Corpus read_parallel(const std::filesystem::path& source, const std::filesystem::path& target, bool unify) {
  return parse_parallel(read_maybe_gzip(source), read_maybe_gzip(target), source.string(), target.string(), unify);
}

}  // namespace fovea::translation
