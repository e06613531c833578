#include <spdlog/spdlog.h>

#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/text.h"
#include "fovea/metrics/text_score.h"

namespace fovea::cli {
namespace {

struct ScoreOptions {
  std::string hypotheses, references;
  bool lowercase = false, json = false;
};

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_maybe_gzip(path);
  std::vector<std::string> lines;
  for (const auto line : data::split_lines(data::check_utf8(text, path))) lines.emplace_back(line);
  return lines;
}

int score(const ScoreOptions& options) {
  const auto hypotheses = read_lines(options.hypotheses), references = read_lines(options.references);
  if (hypotheses.size() != references.size()) {
    fail_usage("{} has {}, {} has {}: expected the same number of lines in both", options.hypotheses,
               counted(hypotheses.size(), "line"), options.references, references.size());
  }
  const metrics::TextScore score = metrics::score_texts(hypotheses, references, {.lowercase = options.lowercase});
  if (!score.warning.empty()) spdlog::warn("{}", score.warning);
  std::cout << (options.json ? score.json : for_output(score.text)) << "\n";
  return 0;
}

}  // namespace

void add_score(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<ScoreOptions>();
  auto* command = app.add_subcommand("score", "Corpus BLEU of any two files, equal to sacreBLEU's");
  command->add_option("hypotheses", options->hypotheses, "File of translations, one a line")
      ->required()
      ->transform(as_path());
  command->add_option("references", options->references, "File of references, line by line")
      ->required()
      ->transform(as_path());
  command->add_flag("--lowercase", options->lowercase, "Compare lower-cased texts (case:lc)");
  command->add_flag("--json", options->json, "One JSON object");
  commands.emplace_back(command, [options] { return score(*options); });
}

}  // namespace fovea::cli
