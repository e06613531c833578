#include <spdlog/spdlog.h>

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/data/text.h"
#include "line_reader.h"
#include "run_argument.h"
#include "section_flags.h"

namespace fovea::cli {
namespace {

struct PredictFlags {
  std::vector<std::string> positionals;
  std::string input, checkpoint;
  bool json = false;
  SectionFlags sections;
};

// Prints predictions as they come, and what is to be said of them at the end.
class PredictionPrinter {
 public:
  explicit PredictionPrinter(bool json) : json_(json) {}

  void print(const std::vector<tasks::Prediction>& predictions) {
    for (const auto& prediction : predictions) {
      if (!prediction.error.empty()) {
        all_well_ = false;
        spdlog::error("{}", prediction.error);
      }
      if (!prediction.warning.empty()) ++warnings_[prediction.warning];
      if (json_) {
        std::cout << prediction.json << "\n";
      } else if (prediction.error.empty()) {
        std::cout << prediction.text << "\n";
      }
    }
    std::cout.flush();
    if (!std::cout) fail("cannot write to the standard output");
  }

  /// Prints warnings, each with how many inputs it is about; returns the exit status.
  int finish(const std::string& noun) const {
    for (const auto& [warning, count] : warnings_) {
      spdlog::warn("{} {}{} {} {}", count, noun, count == 1 ? "" : "s", count == 1 ? "was" : "were", warning);
    }
    return all_well_ ? 0 : 1;
  }

 private:
  bool json_;
  bool all_well_ = true;
  std::map<std::string, int64_t> warnings_;
};

// `only`: the task that this command belongs to, or null for any.
int predict(const PredictFlags& flags, const tasks::Registry& registry, const tasks::Task* only) {
  const Arguments arguments = split_arguments(flags.positionals);
  if (arguments.words.empty()) {
    const tasks::Task& task = only != nullptr ? *only : registry.tasks.front();
    fail_usage("expected a run directory and {}s, as in: {}", task.input, task.example);
  }
  const std::string& path = arguments.words[0];
  const std::vector<std::string> inputs(arguments.words.begin() + 1, arguments.words.end());
  if (!inputs.empty() && !flags.input.empty()) fail_usage("give either inputs or --input, not both");
  std::ifstream file;
  if (!flags.input.empty() && flags.input != "-") {
    file.open(flags.input, std::ios::binary);
    if (!file || std::filesystem::is_directory(flags.input)) fail_usage("{}: cannot be read", flags.input);
  }
  if (only != nullptr && !only->reads_lines && inputs.empty() && flags.input.empty()) {
    fail_usage("expected an {} after the run, as in: {}", only->input, only->example);
  }

  check_run(path);
  const train::LoadedRun run = train::load_run(registry, path, flags.checkpoint, arguments.overrides);
  const tasks::Task& task = registry.task_of(run.assets->spec());
  if (only != nullptr && only->name != task.name) {
    const std::string command = task.verb.empty() ? "predict" : task.verb;
    fail_usage("{}: this is a {} run ({}); use fovea {}", path, run.config.model.name, task.name, command);
  }
  const auto options = task.predict_options();
  flags.sections.apply(*options, path, task.name);
  const auto predictor = task.predictor(run, *options);
  if (!task.reads_lines && inputs.empty() && flags.input.empty()) {
    fail_usage("expected an {} after the run, as in: {}", task.input, task.example);
  }

  PredictionPrinter printer(flags.json);
  if (!inputs.empty()) {
    for (size_t i = 0; task.reads_lines && i < inputs.size(); ++i) {
      data::check_utf8(inputs[i], "argument", static_cast<int64_t>(i + 1));
    }
    const size_t step = predictor->batch_size();
    for (size_t begin = 0; begin < inputs.size(); begin += step) {
      const auto first = inputs.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = inputs.begin() + static_cast<std::ptrdiff_t>(std::min(inputs.size(), begin + step));
      printer.print(predictor->predict({first, last}));
    }
  } else {
    std::ios::sync_with_stdio(false);
    LineReader reader(file.is_open() ? static_cast<std::istream&>(file) : std::cin,
                      file.is_open() ? flags.input : "standard input");
    for (auto lines = reader.next(predictor->batch_size()); !lines.empty();
         lines = reader.next(predictor->batch_size())) {
      printer.print(predictor->predict(lines));
    }
  }
  return printer.finish(task.input);
}

void add_command(CLI::App& app, Commands& commands, const tasks::Registry& registry, const std::string& name,
                 const std::string& summary, const std::vector<const tasks::Task*>& tasks) {
  auto flags = std::make_shared<PredictFlags>();
  const tasks::Task* only = tasks.size() == 1 && tasks[0]->verb == name ? tasks[0] : nullptr;
  auto* command = app.add_subcommand(name, summary);
  const std::string noun = only != nullptr ? only->input : "input";
  std::string upper = noun;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool reads_lines = only == nullptr || only->reads_lines;
  add_arguments(*command, flags->positionals,
                fmt::format("RUN {} [runtime.KEY=VALUE ...]", reads_lines ? "[" + upper + " ...]" : upper + " ..."),
                fmt::format("RUN\tThe directory of a run: runs/NAME\n"
                            "{}\tWhat to predict from{}\n"
                            "runtime.KEY=VALUE\tWhere it computes: runtime.threads=1, runtime.device=cuda",
                            upper, reads_lines ? "; without any, lines of --input or of the standard input" : ""));
  command->add_option("--input", flags->input, fmt::format("File of {}s, one a line; - for the standard input", noun))
      ->type_name("FILE");
  add_checkpoint(*command, flags->checkpoint);
  for (const auto* task : tasks) {
    flags->sections.add(*command, *task->predict_options(), task->name, /*several=*/only == nullptr);
  }
  command->add_flag("--json", flags->json, "One JSON object for each input");
  command->footer(
      fmt::format("Example:\n  {}\n", only != nullptr ? only->example : "fovea predict runs/regression_line 1.5") +
      "An input that cannot be read is an error on stderr; the others are predicted all the same, and the exit status "
      "is 1.");
  commands.emplace_back(command, [flags, only, &registry] { return predict(*flags, registry, only); });
}

}  // namespace

void add_predict(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  std::vector<const tasks::Task*> all;
  for (const auto& task : registry.tasks) {
    all.push_back(&task);
    if (!task.verb.empty()) {
      add_command(app, commands, registry, task.verb, fmt::format("Use a trained model: {}", task.summary), {&task});
    }
  }
  add_command(app, commands, registry, "predict", "Use a trained model of any kind", all);
}

}  // namespace fovea::cli
