#include "fovea/tasks/translation/corpus.h"

#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/text.h"

#include <algorithm>

namespace fovea::translation {
namespace {

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::vector<std::string_view> checked_lines(std::string_view text, const std::string& name) {
  return data::split_lines(data::check_utf8(text, name));
}

/// Keeps the pair if both sides say something, and counts.
void add(Corpus& corpus, std::string_view source, std::string_view target) {
  const bool has_source = !data::is_blank(source);
  const bool has_target = !data::is_blank(target);
  ++corpus.counts.lines;
  if (has_source && has_target) {
    ++corpus.counts.kept;
    corpus.pairs.push_back({std::string(source), std::string(target)});
  } else if (has_source || has_target) {
    ++corpus.counts.skipped_one_sided;
  } else {
    ++corpus.counts.skipped_blank;
  }
}

}  // namespace

std::string Corpus::describe() const {
  std::string text = fmt::format("{}: {} kept", counted(counts.lines, "line"), counted(counts.kept, "pair"));
  if (counts.skipped_blank + counts.skipped_one_sided > 0) {
    text += fmt::format(", {} blank and {} one-sided skipped", counts.skipped_blank, counts.skipped_one_sided);
  }
  return text;
}

Corpus parse_tsv(std::string_view text, const std::string& name) {
  constexpr char kTab = '\t';
  const std::vector<std::string_view> lines = checked_lines(text, name);
  if (lines.empty()) fail("{}: expected lines of source<TAB>target, found an empty file", name);
  Corpus corpus;
  for (const std::string_view line : lines) {
    const size_t source_end = std::min(line.find(kTab), line.size());
    std::string_view target = line.substr(std::min(source_end + 1, line.size()));
    target = target.substr(0, target.find(kTab));
    add(corpus, line.substr(0, source_end), target);
  }
  if (!corpus.pairs.empty()) return corpus;

  const auto has_tab = [](std::string_view line) { return line.find(kTab) != std::string_view::npos; };
  if (std::none_of(lines.begin(), lines.end(), has_tab)) {
    const auto shown = std::find_if_not(lines.begin(), lines.end(), data::is_blank);
    fail("{}: expected source<TAB>target on each line, found no tab in {}{}", name,
         counted(corpus.counts.lines, "line"),
         shown == lines.end() ? std::string() : fmt::format(", e.g. \"{}\"", data::excerpt(*shown)));
  }
  fail("{}: expected at least one line with a source and a target, found none in {}", name, corpus.describe());
}

Corpus parse_parallel(std::string_view source, std::string_view target, const std::string& source_name,
                      const std::string& target_name) {
  const std::vector<std::string_view> sources = checked_lines(source, source_name);
  const std::vector<std::string_view> targets = checked_lines(target, target_name);
  if (sources.size() != targets.size()) {
    fail("expected as many lines in {} as in {}, found {} and {}", source_name, target_name, sources.size(),
         targets.size());
  }
  if (sources.empty()) fail("{} and {}: expected sentences, found two empty files", source_name, target_name);
  Corpus corpus;
  for (size_t i = 0; i < sources.size(); ++i) add(corpus, sources[i], targets[i]);
  if (corpus.pairs.empty()) {
    fail("{} and {}: expected at least one line with a source and a target, found none in {}", source_name, target_name,
         corpus.describe());
  }
  return corpus;
}

Corpus read_tsv(const std::filesystem::path& path) {
  return parse_tsv(read_maybe_gzip(path), path.string());
}

Corpus read_parallel(const std::filesystem::path& source, const std::filesystem::path& target) {
  return parse_parallel(read_maybe_gzip(source), read_maybe_gzip(target), source.string(), target.string());
}

}  // namespace fovea::translation
