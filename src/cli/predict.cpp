#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "command.h"
#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/core/progress.h"
#include "fovea/core/user_path.h"
#include "line_reader.h"
#include "run_argument.h"
#include "section_flags.h"

namespace fovea::cli {
namespace {

constexpr int kUnusableInput = 2;   // the exit status of what was given and is wrong, as of any ErrorKind::kUsage
constexpr size_t kHeadBytes = 512;  // enough to know what a file is

struct PredictFlags {
  std::vector<std::string> positionals;
  std::string input, checkpoint;
  bool json = false, csv = false;
  SectionFlags sections;
};

// How far a prediction of many inputs is, on a terminal. Nothing where the predictions go to the same terminal.
class PredictProgress {
 public:
  // `count_inputs`: how many inputs there are, 0 for unknown; asked only if somebody sees it.
  PredictProgress(const std::string& noun, const std::function<int64_t()>& count_inputs)
      : shown_(progress_.is_terminal() && ::isatty(STDOUT_FILENO) == 0) {
    state_.name = fmt::format("{}s", noun);
    state_.rate_unit = fmt::format("{}s/s", noun);
    if (shown_) state_.total = count_inputs();
  }

  void add(size_t count) {
    state_.done += static_cast<int64_t>(count);
    if (!shown_) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    if (seconds > 0) state_.rate = static_cast<double>(state_.done) / seconds;
    if (seconds > 0 && state_.total > 0) state_.eta = static_cast<double>(state_.total - state_.done) / state_.rate;
    progress_.update(state_);
  }
  // Clears the line, so that something else can be printed.
  void clear() { progress_.finish(); }
  // How many there were, and how fast, for whoever waited for them.
  void say_speed() {
    constexpr double kWaited = 1;  // seconds
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    if (!progress_.is_terminal() || seconds < kWaited || state_.done < 2) return;
    std::cerr << fmt::format("{} {} in {}, {} {}\n", state_.done, state_.name, format_duration(seconds),
                             format_count(static_cast<double>(state_.done) / seconds), state_.rate_unit);
  }

 private:
  Progress progress_;
  bool shown_;
  ProgressState state_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// The lines of a regular file; 0 of what can be read only once.
int64_t count_lines(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || path == "-" || !std::filesystem::is_regular_file(path, ignored)) return 0;
  std::ifstream file(path, std::ios::binary);
  int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

enum class Format { kText, kJson, kCsv };

// Prints predictions as they come, and what is to be said of them at the end.
class PredictionPrinter {
 public:
  // `where`: the name of what the inputs are numbered in, for errors; empty where each input names itself.
  // `keeps_lines`: one output line for each input line, whatever becomes of it.
  PredictionPrinter(Format format, PredictProgress& progress, std::string where, bool keeps_lines)
      : format_(format), progress_(progress), where_(std::move(where)), keeps_lines_(keeps_lines) {}

  void print(const std::vector<tasks::Prediction>& predictions) {
    for (const auto& prediction : predictions) {
      ++number_;
      if (!prediction.error.empty()) {
        all_well_ = false;
        progress_.clear();
        spdlog::error("{}{}", where_.empty() ? "" : fmt::format("{}:{}: ", where_, number_), prediction.error);
      }
      if (!prediction.warning.empty()) ++warnings_[prediction.warning];
      if (format_ == Format::kJson) {
        std::cout << prediction.json << "\n";
      } else if (format_ == Format::kCsv) {
        if (prediction.error.empty()) std::cout << prediction.csv << "\n";
      } else if (prediction.error.empty()) {
        std::cout << prediction.text << "\n";
      } else if (keeps_lines_) {
        std::cout << "\n";
      }
    }
    std::cout.flush();
    if (!std::cout) fail("cannot write to the standard output");
    progress_.add(predictions.size());
  }

  // Prints warnings, each with how many inputs it is about; returns the exit status.
  int finish(const std::string& noun) const {
    progress_.clear();
    progress_.say_speed();
    for (const auto& [warning, count] : warnings_) {
      spdlog::warn("{} {} {}", counted(count, noun), count == 1 ? "was" : "were", warning);
    }
    return all_well_ ? 0 : kUnusableInput;
  }

 private:
  Format format_;
  PredictProgress& progress_;
  std::string where_;
  bool keeps_lines_;
  int64_t number_ = 0;
  bool all_well_ = true;
  std::map<std::string, int64_t> warnings_;
};

// What a stream holds where it is packed; null where it is text to be read as it comes.
std::unique_ptr<std::istream> unpack_stream(std::istream& stream, const std::string& name) {
  if (stream.peek() != 0x1F && stream.peek() != 0xFD) return nullptr;  // gzip, xz: no text begins so
  std::string data{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return std::make_unique<std::istringstream>(unpack_input(std::move(data), name));
}

// A file is read as it comes unless it is packed; a pipe is read to its end.
std::unique_ptr<std::istream> open_input(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
    const std::string head = read_beginning(path, kHeadBytes);
    if (*file && !is_gzip(head) && foreign_format(head).empty()) return file;
  }
  return std::make_unique<std::istringstream>(read_maybe_gzip(path));
}

// `only`: the task that this command belongs to, or null for any.
int predict(const PredictFlags& flags, const tasks::Registry& registry, const tasks::Task* only) {
  const Arguments arguments = split_arguments(flags.positionals);
  if (arguments.words.empty()) {
    const tasks::Task& task = only != nullptr ? *only : registry.tasks.front();
    fail_usage("expected a run directory and {}s, as in: {}", task.input, task.example);
  }
  const std::string path = user_path(arguments.words[0]);
  if (only != nullptr && !std::filesystem::exists(path)) {
    fail_usage("{}: there is no such run, the directory that `fovea train` makes; it comes before the {}s, as in: {}",
               path, only->input, only->example);
  }
  std::vector<std::string> inputs(arguments.words.begin() + 1, arguments.words.end());
  if (!inputs.empty() && !flags.input.empty()) fail_usage("give either inputs or --input, not both");
  const bool is_file = !flags.input.empty() && flags.input != "-";
  const std::unique_ptr<std::istream> file = is_file ? open_input(flags.input) : nullptr;
  if (only != nullptr && !only->reads_lines && inputs.empty() && flags.input.empty()) {
    fail_usage("expected an {} after the run, as in: {}", only->input, only->example);
  }

  check_run(path);
  const train::LoadedRun run = train::load_run(registry, path, flags.checkpoint, arguments.overrides);
  const tasks::Task& task = registry.task_of(run.assets->spec());
  if (only != nullptr && only->name != task.name) {
    const std::string command = task.verb.empty() ? "predict" : task.verb;
    fail_usage("{}: the model of this run is {} ({}); use fovea {}", path, run.config.model.name, task.name, command);
  }
  const auto options = task.predict_options();
  flags.sections.apply(*options, path, task.name);
  const auto predictor = task.predictor(run, *options);
  if (!task.reads_lines && inputs.empty() && flags.input.empty()) {
    fail_usage("expected an {} after the run, as in: {}", task.input, task.example);
  }

  if (task.inputs_of) {
    std::vector<std::string> all;
    for (const auto& input : inputs) {
      for (auto& one : task.inputs_of(input)) all.push_back(std::move(one));
    }
    inputs = std::move(all);
  }
  if (flags.csv && predictor->csv_header().empty()) {
    fail_usage("--csv: predictions of {} are no table; use --json", task.name);
  }

  PredictProgress progress(
      task.input, [&] { return inputs.empty() ? count_lines(flags.input) : static_cast<int64_t>(inputs.size()); });
  const bool has_lines = inputs.empty();
  const std::string where = !has_lines ? (task.reads_lines ? "argument" : "")
                            : is_file  ? flags.input
                                       : "standard input";
  const Format format = flags.json ? Format::kJson : flags.csv ? Format::kCsv : Format::kText;
  PredictionPrinter printer(format, progress, where, has_lines);
  if (flags.csv) std::cout << predictor->csv_header() << "\n";
  if (!inputs.empty()) {
    const size_t step = predictor->batch_size();
    for (size_t begin = 0; begin < inputs.size(); begin += step) {
      const auto first = inputs.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = inputs.begin() + static_cast<std::ptrdiff_t>(std::min(inputs.size(), begin + step));
      printer.print(predictor->predict({first, last}));
    }
  } else {
    std::ios::sync_with_stdio(false);
    const std::unique_ptr<std::istream> unpacked = is_file ? nullptr : unpack_stream(std::cin, where);
    LineReader reader(is_file ? *file : unpacked != nullptr ? *unpacked : std::cin, where);
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
  command
      ->add_option("--input", flags->input,
                   fmt::format("File of {}s, one a line, plain or gzip; - for the standard input", noun))
      ->type_name("FILE")
      ->transform(as_path());
  add_checkpoint(*command, flags->checkpoint);
  for (const auto* task : tasks) {
    flags->sections.add(*command, *task->predict_options(), task->name, /*several=*/only == nullptr);
  }
  auto* json = command->add_flag("--json", flags->json, "One JSON object for each input");
  if (only == nullptr || only->writes_csv) {
    command->add_flag("--csv", flags->csv, "A table with a header: each input and all its scores")->excludes(json);
  }
  command->footer(
      fmt::format("Example:\n  {}\n", only != nullptr ? only->example : "fovea predict runs/regression_line 1.5") +
      "An input that cannot be read is an error on stderr; the others are predicted all the same, and the exit status "
      "is 2. Of lines, each gives its line of output, blank where there is none to give.");
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
