#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/child_process.h"
#include "fovea/core/counted.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/shell.h"
#include "fovea/core/signals.h"
#include "fovea/core/table.h"
#include "fovea/plot/gnuplot.h"
#include "fovea/sweep/sweep_file.h"
#include "fovea/sweep/sweep_picture.h"
#include "fovea/sweep/sweep_results.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/checkpoint_store.h"
#include "fovea/train/metrics_file.h"
#include "fovea/train/run_facts.h"
#include "fovea/train/run_summary.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kResults = "results.jsonl";
constexpr double kMegabyte = 1e6;

struct SweepFlags {
  std::vector<std::string> positionals;
  std::string dir, output;
  bool json = false, dry_run = false, quiet = false, overwrite = false;
};

// One sweep at a time writes a directory. The lock ends with the process, however that ends.
class SweepLock {
 public:
  explicit SweepLock(const fs::path& dir) : fd_(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ < 0) fail_errno("cannot open", dir, errno);
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    const int error = errno;
    ::close(fd_);
    if (error == EWOULDBLOCK) fail("{}: another sweep is at work there", dir.string());
    spdlog::warn("{}: the file system has no locks; see that no other sweep uses it", dir.string());
    fd_ = -1;
  }
  ~SweepLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  SweepLock(const SweepLock&) = delete;
  SweepLock& operator=(const SweepLock&) = delete;

 private:
  int fd_;
};

// Trains and evaluates the members that are not done.
class SweepRunner {
 public:
  SweepRunner(const sweep::Sweep& sweep, fs::path dir, const tasks::Registry& registry, bool quiet)
      : sweep_(sweep),
        dir_(std::move(dir)),
        registry_(registry),
        quiet_(quiet),
        results_(dir_ / kResults),
        program_(this_program()) {
    for (const auto& member : sweep.members) check_same(member);
  }

  const sweep::Results& results() const { return results_; }
  fs::path run_of(const sweep::Member& member) const { return dir_ / member.name; }

  /// "done", "stopped", ..., or "new".
  std::string state_of(const sweep::Member& member) const {
    if (!exists(member)) return "new";
    return std::string(name_of(train::summarize_run(run_of(member)).state));
  }

  /// Returns the exit status.
  int run() {
    catch_stop_signals();
    const SweepLock lock(dir_);
    for (size_t i = 0; i < sweep_.members.size() && stop_signal() == 0; ++i) {
      const sweep::Member& member = sweep_.members[i];
      if (!is_done(member)) {
        if (sweep_.budget && minutes() >= *sweep_.budget) {
          ++left_;
          continue;
        }
        say(fmt::format("[{}/{}] {}\n", i + 1, sweep_.members.size(), member.name));
        train(member);
      }
      if (stop_signal() == 0 && is_done(member)) evaluate(member);
    }
    if (stop_signal() != 0) return 128 + stop_signal();
    if (left_ > 0) {
      spdlog::warn("the budget of {:.4g} minutes is used up: {} not trained", *sweep_.budget, counted(left_, "member"));
    }
    for (const auto& problem : problems_) spdlog::error("{}", problem);
    return problems_.empty() ? 0 : 1;
  }

 private:
  bool exists(const sweep::Member& member) const {
    std::error_code ignored;
    return fs::is_regular_file(run_of(member) / train::kConfigFile, ignored);
  }
  bool is_done(const sweep::Member& member) const { return exists(member) && state_of(member) == "done"; }

  std::optional<train::ExperimentConfig> readable_settings(const fs::path& run) const {
    try {
      return train::load_experiment(registry_, run / train::kConfigFile, {}, config::Document::kRuns);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // A run of other settings would be counted as one of these.
  void check_same(const sweep::Member& member) const {
    const fs::path run = run_of(member);
    std::error_code ignored;
    if (!fs::is_regular_file(run / train::kConfigFile, ignored)) return;
    // What cannot be read is said when its turn comes: the others are trained all the same.
    const auto settings = readable_settings(run);
    if (!settings) return;
    const auto differences = config::differences(*settings, member.config, {"runtime"});
    if (differences.empty()) return;
    const auto& first = differences.front();
    fail_usage(
        "{}: is a run with other settings than {} says: {} is {}, expected {}{}; remove it, or choose another "
        "directory (--dir)",
        run.string(), sweep_.file.string(), first.key, first.before, first.after,
        differences.size() > 1 ? fmt::format(" ({} more differ)", differences.size() - 1) : "");
  }

  double minutes() const {
    double sum = 0;
    for (const auto& member : sweep_.members) {
      if (exists(member)) sum += train::summarize_run(run_of(member)).minutes;
    }
    return sum;
  }

  void say(const std::string& text) const {
    if (!quiet_) std::cerr << for_errors(text) << std::flush;
  }

  void train(const sweep::Member& member) {
    const fs::path run = run_of(member);
    std::vector<std::string> arguments = {"train"};
    if (exists(member)) {
      const auto summary = train::summarize_run(run);
      if (summary.state == train::RunState::kTraining) {
        problems_.push_back(fmt::format("{}: another process trains it", run.string()));
        return;
      }
      if (summary.state == train::RunState::kBroken) {
        problems_.push_back(fmt::format("{} (remove {} to have it trained anew)", summary.problem, run.string()));
        return;
      }
      arguments.insert(arguments.end(), {"--resume", run.string()});
    } else {
      const fs::path file = dir_ / (member.name + ".yaml");
      replace_file(file, config::dump(member.config));
      arguments.insert(arguments.end(), {file.string(), "--run-dir", run.string()});
    }
    if (quiet_) arguments.emplace_back("--quiet");
    const ChildResult child = run_child(program_, arguments);
    note_memory(member, child.peak_memory);
    if (child.status != 0 && stop_signal() == 0) {
      problems_.push_back(fmt::format("{}: its training ended with status {}", run.string(), child.status));
    }
  }

  // The most that any of the processes had that trained it.
  void note_memory(const sweep::Member& member, int64_t bytes) {
    const sweep::Result* old = results_.find(member.name);
    sweep::Result result = old != nullptr ? *old : sweep::Result{.member = member.name};
    if (!result.training.is_object()) result.training = Json::object();
    const double before = result.training.value("peak_memory_mb", 0.0);
    result.training["peak_memory_mb"] = std::max(before, std::round(static_cast<double>(bytes) / kMegabyte));
    results_.put(std::move(result));
  }

  // The checkpoint and the time of training tell whether a result is of the run as it is now.
  bool has_result(const sweep::Member& member, const Json& training) const {
    const sweep::Result* result = results_.find(member.name);
    if (result == nullptr || !result->report.is_object() || result->evaluate != sweep_.evaluate) return false;
    const auto checkpoint = train::CheckpointStore(run_of(member)).directory_of();
    return checkpoint && result->report.value("checkpoint", "") == checkpoint->filename().string() &&
           result->training.value("minutes", -1.0) == training["minutes"].get<double>();
  }

  Json training_of(const sweep::Member& member) const {
    const fs::path run = run_of(member);
    Json facts = Json::object();
    if (const sweep::Result* old = results_.find(member.name)) facts = old->training;
    for (const auto& [name, value] : train::training_facts(train::summarize_run(run), member.config,
                                                           train::read_metrics(run / train::kMetricsFile))) {
      facts[name] = value;
    }
    return facts;
  }

  void evaluate(const sweep::Member& member) {
    const Json training = training_of(member);
    if (has_result(member, training)) return;
    const fs::path run = run_of(member);
    std::vector<std::string> arguments = {"evaluate", run.string(), "--json"};
    arguments.insert(arguments.end(), sweep_.evaluate.begin(), sweep_.evaluate.end());
    const ChildResult child = run_child(program_, arguments);
    if (stop_signal() != 0) return;
    const Json report = Json::parse(child.output, nullptr, /*allow_exceptions=*/false);
    if (child.status != 0 || !report.is_object()) {
      problems_.push_back(fmt::format("{}: its evaluation ended with status {}", run.string(), child.status));
      return;
    }
    results_.put({.member = member.name, .evaluate = sweep_.evaluate, .report = report, .training = training});
  }

  const sweep::Sweep& sweep_;
  fs::path dir_;
  const tasks::Registry& registry_;
  bool quiet_;
  sweep::Results results_;
  fs::path program_;
  int64_t left_ = 0;
  std::vector<std::string> problems_;
};

bool has_variants(const sweep::Sweep& sweep) {
  return !sweep.members.front().variant.empty();
}

bool has_results(const sweep::Findings& findings) {
  return !findings.measures.empty() && std::any_of(findings.setups.begin(), findings.setups.end(),
                                                   [](const sweep::Setup& setup) { return setup.seeds > 0; });
}

std::string findings_text(const sweep::Sweep& sweep, const sweep::Findings& findings) {
  std::vector<std::string> header;
  if (has_variants(sweep)) header.emplace_back("variant");
  header.insert(header.end(), sweep.grid_names.begin(), sweep.grid_names.end());
  const size_t names = header.size();
  header.emplace_back("seeds");
  header.insert(header.end(), findings.measures.begin(), findings.measures.end());
  std::vector<Table::Align> align(header.size(), Table::Align::kRight);
  if (has_variants(sweep)) align[0] = Table::Align::kLeft;
  if (names == 0) header.front() = "seeds";
  Table table({.header = header, .align = align, .width = output_width()});
  for (const auto& setup : findings.setups) {
    std::vector<std::string> cells;
    if (has_variants(sweep)) cells.push_back(setup.variant);
    for (const auto& value : setup.values) cells.push_back(value.value);
    cells.push_back(std::to_string(setup.seeds));
    for (const auto& measure : setup.measures) cells.push_back(measure.text());
    table.add_row(cells);
  }
  return table.str();
}

// Whether a measure is a count that all setups share: how many examples a band has.
bool is_count(const sweep::Bands& bands, size_t measure) {
  const auto& of_setups = bands.values[measure];
  for (const auto& setup : of_setups) {
    for (size_t b = 0; b < setup.size(); ++b) {
      const auto& first = of_setups.front()[b];
      if (setup[b].count == 0) continue;
      if (setup[b].spread != 0 || setup[b].mean != std::floor(setup[b].mean)) return false;
      if (first.count > 0 && setup[b].mean != first.mean) return false;
    }
  }
  return true;
}

std::string bands_text(const sweep::Sweep& sweep, const sweep::Bands& bands, const sweep::Findings& findings) {
  std::string text;
  const auto& chosen = sweep.measures;
  std::vector<size_t> counts, measures;
  for (size_t m = 0; m < bands.measures.size(); ++m) {
    if (std::find(chosen.begin(), chosen.end(), bands.measures[m]) != chosen.end()) {
      measures.push_back(m);
    } else if (is_count(bands, m)) {
      counts.push_back(m);
    } else if (chosen.empty()) {
      measures.push_back(m);
    }
  }
  for (const size_t m : measures) {
    std::vector<std::string> header = {bands.label};
    for (const size_t count : counts) header.push_back(bands.measures[count]);
    for (const auto& setup : findings.setups) header.push_back(setup.name.empty() ? bands.measures[m] : setup.name);
    std::vector<Table::Align> align(header.size(), Table::Align::kRight);
    align[0] = Table::Align::kLeft;
    Table table({.header = header, .align = align, .width = output_width()});
    for (size_t b = 0; b < bands.names.size(); ++b) {
      std::vector<std::string> cells = {bands.names[b]};
      for (const size_t count : counts) cells.push_back(bands.values[count].front()[b].text());
      for (const auto& setup : bands.values[m]) cells.push_back(setup[b].text());
      table.add_row(cells);
    }
    text += fmt::format("\n{} by {}\n\n{}", bands.measures[m], bands.label, table.str());
  }
  return text;
}

Json statistics_json(const sweep::Statistics& s) {
  return {{"mean", s.count > 0 ? Json(s.mean) : Json()}, {"spread", s.spread}, {"seeds", s.count}};
}

std::string findings_json(const sweep::Sweep& sweep, const SweepRunner& runner, const sweep::Findings& findings) {
  Json json = {{"sweep", sweep.file.string()}, {"setups", Json::array()}};
  for (const auto& setup : findings.setups) {
    Json row = {{"variant", setup.variant}, {"settings", Json::object()}, {"seeds", setup.seeds}};
    for (const auto& value : setup.values) row["settings"][value.key] = value.value;
    row["measures"] = Json::object();
    for (size_t m = 0; m < findings.measures.size(); ++m) {
      row["measures"][findings.measures[m]] = statistics_json(setup.measures[m]);
    }
    for (const auto& bands : findings.bands) {
      auto& table = row[bands.key] = Json::array();
      const auto s = static_cast<size_t>(&setup - findings.setups.data());
      for (size_t b = 0; b < bands.names.size(); ++b) {
        Json band = {{bands.label, bands.names[b]}};
        for (size_t m = 0; m < bands.measures.size(); ++m) {
          band[bands.measures[m]] = statistics_json(bands.values[m][s][b]);
        }
        table.push_back(band);
      }
    }
    json["setups"].push_back(row);
  }
  for (const auto& member : sweep.members) {
    const sweep::Result* result = runner.results().find(member.name);
    json["members"].push_back({{"name", member.name},
                               {"seed", member.seed},
                               {"run", runner.run_of(member).string()},
                               {"state", runner.state_of(member)},
                               {"training", result == nullptr ? Json() : result->training},
                               {"report", result == nullptr ? Json() : result->report}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// What there is and what would be done.
std::string plan_text(const sweep::Sweep& sweep, const SweepRunner& runner) {
  std::map<std::string, int64_t> counts;
  Table table({.header = {"member", "state"}, .width = output_width()});
  for (const auto& member : sweep.members) {
    const std::string state = runner.state_of(member);
    ++counts[state];
    table.add_row({member.name, state});
  }
  std::string text = table.str() + "\n" + counted(sweep.members.size(), "member");
  for (const auto& [state, count] : counts) text += fmt::format(", {} {}", count, state);
  return text + "\n";
}

int run_sweep(const SweepFlags& flags, const tasks::Registry& registry) {
  const Arguments arguments = split_arguments(flags.positionals);
  const fs::path file =
      arguments.only("the file of a sweep, as in: fovea sweep configs/experiments/length.yaml", registry);
  check_config(file);
  const sweep::Sweep sweep = sweep::load_sweep(registry, file, arguments.overrides);
  const fs::path dir = run_directory(flags.dir, file);
  std::error_code ignored;
  if (fs::exists(dir / train::kConfigFile, ignored)) {
    fail_usage("{}: is a run; choose another directory for the sweep (--dir)", dir.string());
  }
  const fs::path picture = plot::check_picture(flags.output, flags.overwrite);
  SweepRunner runner(sweep, dir, registry, flags.quiet);
  int status = 0;
  if (flags.dry_run) {
    std::cerr << plan_text(sweep, runner);
  } else {
    fs::create_directories(dir);
    status = runner.run();
  }
  const sweep::Findings findings = sweep::findings_of(sweep, runner.results());
  if (flags.json) {
    std::cout << findings_json(sweep, runner, findings);
  } else if (has_results(findings)) {
    std::cout << findings_text(sweep, findings);
    for (const auto& bands : findings.bands) std::cout << bands_text(sweep, bands, findings);
  }
  std::cout << std::flush;
  const bool is_stopped = status > 128;
  if (!picture.empty() && !is_stopped) {
    plot::draw(sweep::picture_of(sweep, findings), picture, plot::format_of(flags.output));
  }
  if (is_stopped) spdlog::warn("interrupted; the same command goes on where it was");
  return status;
}

}  // namespace

void add_sweep(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<SweepFlags>();
  auto* command = app.add_subcommand("sweep", "Train many variants of an experiment and compare them");
  add_arguments(*command, flags->positionals, "SWEEP.yaml [KEY=VALUE ...]",
                "SWEEP.yaml\tThe file that says what is varied\n"
                "KEY=VALUE\tSettings for all members: train.max_epochs=5");
  command->add_option("--dir", flags->dir, "Where the runs are kept (default runs/NAME for NAME.yaml)")
      ->type_name("DIR")
      ->transform(as_path());
  command
      ->add_option("-o,--output", flags->output,
                   "A picture of the measures to write: a name that ends in .svg, .png or .pdf. gnuplot draws it")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_flag("--overwrite", flags->overwrite, "Replace the picture if it exists");
  command->add_flag("--dry-run", flags->dry_run, "List the members and their states, show what was found, and stop");
  command->add_flag("--json", flags->json, "One JSON object: setups with mean and spread, members with their reports");
  add_quiet(*command, flags->quiet);
  command->footer(
      "A sweep in YAML; keys of settings are those of an experiment:\n"
      "  base: ../transformer_tiny.yaml        # what members begin with\n"
      "  settings: {train.max_epochs: 20}      # of all\n"
      "  grid: {model.num_heads: [1, 2, 4]}    # each value with each of other keys\n"
      "  variants:                             # with a base or settings of their own\n"
      "    - {name: narrow, settings: {model.num_hiddens: 64}}\n"
      "  seeds: [1, 2, 3]\n"
      "  evaluate: {split: validation, beam: 4}    # options of fovea evaluate\n"
      "  measures: [bleu, minutes, parameters, peak_memory_mb]\n"
      "  budget: 60                            # minutes, after which no member begins\n"
      "  plot: {x: model.num_heads, log: true}\n\n"
      "Members are trained one after another, first all of one seed. A member that is done is skipped, one that was "
      "interrupted goes on, one that fails does not end the sweep. The table has mean ± standard deviation over the "
      "seeds.\n\n"
      "Examples:\n"
      "  fovea sweep configs/experiments/heads.yaml -o heads.svg\n"
      "  fovea sweep configs/experiments/heads.yaml --dry-run");
  commands.emplace_back(command, [flags, &registry] { return run_sweep(*flags, registry); });
}

}  // namespace fovea::cli
