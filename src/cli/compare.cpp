#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/core/table.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/metrics_file.h"
#include "fovea/train/run_facts.h"
#include "fovea/train/run_summary.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

struct CompareFlags {
  std::vector<std::string> runs;
  bool json = false;
};

struct ComparedRun {
  train::RunSummary summary;
  train::ExperimentConfig config;
  train::MetricsFile metrics;
};

// Values of the runs side by side; null where a run has none.
struct ComparedRow {
  std::string name;
  std::vector<nlohmann::ordered_json> values;
};

struct ComparedRows {
  std::string title, key;  // for the table, for JSON
  std::vector<ComparedRow> rows = {};

  /// The row of that name, made where there is none.
  ComparedRow& row(const std::string& name, size_t runs) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
    if (found != rows.end()) return *found;
    return rows.emplace_back(ComparedRow{name, std::vector<nlohmann::ordered_json>(runs)});
  }
};

ComparedRun read_compared(const std::filesystem::path& path, const tasks::Registry& registry) {
  const std::filesystem::path metrics = path / train::kMetricsFile;
  return {.summary = train::summarize_run(path),
          .config = train::load_experiment(registry, path / train::kConfigFile, {}, config::Document::kRuns),
          .metrics = std::filesystem::exists(metrics) ? train::read_metrics(metrics) : train::MetricsFile()};
}

// Every setting that is not the same in all runs.
ComparedRows different_settings(const std::vector<ComparedRun>& runs) {
  ComparedRows section{.title = "settings that differ", .key = "settings"};
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [key, value] : config::settings(runs[i].config)) section.row(key, runs.size()).values[i] = value;
  }
  std::erase_if(section.rows, [](const ComparedRow& row) {
    return std::all_of(row.values.begin(), row.values.end(), [&](const auto& v) { return v == row.values.front(); });
  });
  return section;
}

// The validation that made the best checkpoint, else the last one.
const train::MetricsFile::Line* best_validation(const ComparedRun& run) {
  for (const auto& line : run.metrics.lines) {
    const bool is_best = run.summary.best && line.step == run.summary.best_step;
    if (is_best && line.kind == "validation") return &line;
  }
  return run.metrics.last("validation");
}

ComparedRows scores_of(const std::vector<ComparedRun>& runs) {
  ComparedRows section{.title = "validation at the best checkpoint", .key = "scores"};
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto* line = best_validation(runs[i]);
    if (line == nullptr) continue;
    for (const auto& [name, value] : line->values) section.row(name, runs.size()).values[i] = value;
    section.row("step", runs.size()).values[i] = line->step;
  }
  return section;
}

ComparedRows training_of(const std::vector<ComparedRun>& runs) {
  ComparedRows section{.title = "training", .key = "training"};
  for (size_t i = 0; i < runs.size(); ++i) {
    const ComparedRun& run = runs[i];
    section.row("state", runs.size()).values[i] = std::string(name_of(run.summary.state));
    for (const auto& [name, value] : train::training_facts(run.summary, run.config, run.metrics)) {
      const bool is_count = value == std::floor(value) && name != "minutes";
      section.row(name, runs.size()).values[i] =
          is_count ? nlohmann::ordered_json(static_cast<int64_t>(value)) : nlohmann::ordered_json(value);
    }
  }
  return section;
}

std::string cell_text(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (!std::isfinite(number)) return "-";
    return std::abs(number) >= 1000 ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
  }
  return value.is_null() ? "-" : value.dump();
}

std::string comparison_text(const std::vector<std::string>& names, const std::vector<ComparedRows>& sections) {
  std::vector<std::string> header = {""};
  header.insert(header.end(), names.begin(), names.end());
  Table table({.header = header, .width = output_width()});
  for (const auto& section : sections) {
    if (section.rows.empty()) continue;
    table.add_title(section.title);
    for (const auto& row : section.rows) {
      std::vector<std::string> cells = {row.name};
      for (const auto& value : row.values) cells.push_back(cell_text(value));
      table.add_row(cells);
    }
  }
  return table.str();
}

std::string comparison_json(const std::vector<std::string>& names, const std::vector<ComparedRows>& sections) {
  nlohmann::ordered_json json = {{"runs", names}};
  for (const auto& section : sections) {
    auto& values = json[section.key] = nlohmann::ordered_json::object();
    for (const auto& row : section.rows) values[row.name] = row.values;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int compare(const CompareFlags& flags, const tasks::Registry& registry) {
  const auto paths = several_runs(flags.runs, "fovea compare runs/a runs/b");
  if (paths.size() < 2) fail_usage("expected two runs or more to compare, got one: {}", paths.front().string());
  std::vector<ComparedRun> runs;
  for (const auto& path : paths) runs.push_back(read_compared(path, registry));
  const std::vector<std::string> names = train::short_names(paths);
  const std::vector<ComparedRows> sections = {different_settings(runs), scores_of(runs), training_of(runs)};
  std::cout << (flags.json ? comparison_json(names, sections) : comparison_text(names, sections));
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Commands& commands, const tasks::Registry& registry) {
  auto flags = std::make_shared<CompareFlags>();
  auto* command = app.add_subcommand("compare", "Show in what runs differ: settings, scores, speed");
  add_arguments(*command, flags->runs, "RUN RUN ...", "The directories of runs: runs/NAME");
  command->add_flag("--json", flags->json, "One JSON object: lists of values in the order of the runs");
  command->footer(
      "Scores are those of the validation that made the best checkpoint. Rates are the median over the training.\n\n"
      "Examples:\n"
      "  fovea compare runs/a runs/b\n"
      "  fovea compare runs/a runs/b runs/c --json");
  commands.emplace_back(command, [flags, &registry] { return compare(*flags, registry); });
}

}  // namespace fovea::cli
