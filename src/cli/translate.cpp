#include <spdlog/spdlog.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/data/text.h"
#include "fovea/tasks/translation/translator.h"
#include "fovea/train/run.h"
#include "models/models.h"

namespace fovea::cli {
namespace {

struct TranslateOptions {
  std::vector<std::string> positionals;
  std::string input, checkpoint;
  translation::TranslatorOptions translator;
  bool json = false;
};

// Lines of a stream, checked as text, a chunk at a time: output appears while input still comes.
class LineReader {
 public:
  LineReader(std::istream& stream, std::string name) : stream_(stream), name_(std::move(name)) {}

  std::vector<std::string> next(size_t most) {
    std::vector<std::string> lines;
    std::string line;
    while (lines.size() < most && std::getline(stream_, line)) {
      ++number_;
      // With its end, unless it has none: a character is cut off only where the whole text ends.
      if (!stream_.eof()) line += '\n';
      const auto checked = data::split_lines(data::check_utf8(line, name_, number_));
      lines.emplace_back(checked.empty() ? std::string_view() : checked.front());
      // Someone typing wants an answer now, not after a chunk.
      if (stream_.rdbuf()->in_avail() <= 0 && &stream_ == &std::cin) break;
    }
    return lines;
  }

 private:
  std::istream& stream_;
  std::string name_;
  int64_t number_ = 0;
};

void print(const translation::Translation& translation, const std::string& source, bool json, size_t n_best) {
  if (json) {
    nlohmann::ordered_json line = {{"source", source}, {"translations", nlohmann::json::array()}};
    for (const auto& c : translation.candidates) {
      line["translations"].push_back(
          {{"text", c.text}, {"score", c.score}, {"log_probability", c.log_probability}, {"finished", c.finished}});
    }
    if (translation.is_cut) line["source_cut"] = true;
    std::cout << line.dump() << "\n";
  } else if (n_best == 1) {
    std::cout << translation.candidates.front().text << "\n";
  } else {
    // One line per input line: the candidates are its columns.
    for (size_t i = 0; i < translation.candidates.size(); ++i) {
      std::cout << (i > 0 ? "\t" : "") << translation.candidates[i].text;
    }
    std::cout << "\n";
  }
}

int translate(const TranslateOptions& options) {
  Arguments arguments;
  // Only the first positional can be the run and only runtime.* a setting: a sentence may hold '='.
  for (const auto& argument : options.positionals) {
    (argument.starts_with("runtime.") && argument.find('=') != std::string::npos ? arguments.overrides
                                                                                 : arguments.words)
        .push_back(argument);
  }
  if (arguments.words.empty()) fail_usage("expected a run directory, as in: fovea translate runs/quickstart \"go .\"");
  const std::vector<std::string> texts(arguments.words.begin() + 1, arguments.words.end());
  if (!texts.empty() && !options.input.empty()) fail_usage("give either sentences or --input, not both");
  std::ifstream file;
  if (!options.input.empty() && options.input != "-") {
    file.open(options.input, std::ios::binary);
    if (!file || std::filesystem::is_directory(options.input)) fail_usage("{}: cannot be read", options.input);
  }
  const train::LoadedRun run = train::load_run(models::registry(), arguments.words[0], options.checkpoint, arguments.overrides);
  decode::Seq2Seq* model = run.module->seq2seq();
  const auto* assets = dynamic_cast<const translation::TranslationAssets*>(run.assets.get());
  if (model == nullptr || assets == nullptr) {
    fail_usage("{}: its model, {}, does not translate", arguments.words[0], run.config.model.name);
  }
  const translation::Translator translator(*model, *assets, run.device, options.translator);

  int64_t cut = 0;
  const auto translate_chunk = [&](const std::vector<std::string>& lines) {
    const auto translations = translator.translate(lines);
    for (size_t i = 0; i < lines.size(); ++i) {
      print(translations[i], lines[i], options.json, static_cast<size_t>(options.translator.search.n_best));
      cut += translations[i].is_cut ? 1 : 0;
    }
    std::cout.flush();
    if (!std::cout) fail("cannot write to the standard output");
  };
  if (!texts.empty()) {
    for (size_t i = 0; i < texts.size(); ++i) data::check_utf8(texts[i], "argument", static_cast<int64_t>(i + 1));
    translate_chunk(texts);
  } else {
    std::ios::sync_with_stdio(false);
    LineReader reader(file.is_open() ? static_cast<std::istream&>(file) : std::cin,
                      file.is_open() ? options.input : "standard input");
    // Some batches at a time, so that sentences of like length find each other.
    const auto chunk = static_cast<size_t>(options.translator.batch_size) * 8;
    for (auto lines = reader.next(chunk); !lines.empty(); lines = reader.next(chunk)) translate_chunk(lines);
  }
  if (cut > 0) {
    spdlog::warn("{} {} longer than {} tokens (data.num_steps) and cut", cut,
                 cut == 1 ? "sentence was" : "sentences were", std::get<translation::TranslationSpec>(assets->spec()).num_steps);
  }
  return 0;
}

}  // namespace

void add_translate(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<TranslateOptions>();
  auto* command = app.add_subcommand("translate", "Translate sentences with a trained model, a line for a line");
  add_arguments(*command, options->positionals, "RUN, then sentences; without any, lines of --input or stdin");
  command->add_option("--input", options->input, "File of sentences, one a line; - for the standard input");
  command->add_option("--checkpoint", options->checkpoint, "best, last or step-N (default: best, else last)");
  add_search_options(*command, options->translator);
  command->add_option("--n-best", options->translator.search.n_best, "Translations per sentence, separated by tabs")
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object per line, with scores");
  commands.emplace_back(command, [options] { return translate(*options); });
}

}  // namespace fovea::cli
