#include "fovea/plot/curves.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/train/metrics_file.h"
#include "fovea/train/run_summary.h"

namespace fovea::plot {
namespace fs = std::filesystem;
namespace {

struct NamedMetrics {
  std::string name;
  std::string watched;
  train::MetricsFile metrics;
};

bool has_measure(const train::MetricsFile& metrics, const std::string& measure) {
  return std::any_of(metrics.lines.begin(), metrics.lines.end(),
                     [&](const auto& line) { return line.value(measure).has_value(); });
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::vector<std::string> measures_of(const train::MetricsFile& metrics) {
  std::vector<std::string> measures;
  for (const auto& line : metrics.lines) {
    for (const auto& [name, value] : line.values) add_once(measures, name);
  }
  return measures;
}

std::vector<NamedMetrics> read_runs(const std::vector<fs::path>& runs) {
  const std::vector<std::string> names = train::short_names(runs);
  std::vector<NamedMetrics> all;
  std::string problem;
  for (size_t i = 0; i < runs.size(); ++i) {
    const fs::path file = runs[i] / train::kMetricsFile;
    if (!problem.empty()) spdlog::warn("{}", problem);
    problem.clear();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
      problem = fmt::format("{}: there is nothing to draw, the run has no {}", runs[i].string(), train::kMetricsFile);
      continue;
    }
    NamedMetrics run{
        .name = names[i], .watched = train::summarize_run(runs[i]).watched, .metrics = train::read_metrics(file)};
    if (run.metrics.damaged > 0) {
      spdlog::warn("{}{}", run.metrics.first_damage,
                   run.metrics.damaged == 1
                       ? "; the line is left out"
                       : fmt::format("; {} are left out", counted(run.metrics.damaged, "such line")));
    }
    if (run.metrics.lines.empty()) {
      problem = fmt::format("{}: there is nothing to draw, no line of metrics is whole", file.string());
      continue;
    }
    all.push_back(std::move(run));
  }
  if (all.empty()) fail_usage("{}", problem);
  if (!problem.empty()) spdlog::warn("{}", problem);
  return all;
}

// The first measure of each run, which is its loss, and the one that it watches.
std::vector<std::string> usual_measures(const std::vector<NamedMetrics>& runs) {
  std::vector<std::string> measures;
  for (const auto& run : runs) {
    const auto* line = run.metrics.last("validation");
    if (line == nullptr) line = run.metrics.last("train");
    if (line == nullptr) line = &run.metrics.lines.back();
    if (!line->values.empty()) add_once(measures, line->values.front().first);
  }
  for (const auto& run : runs) {
    if (has_measure(run.metrics, run.watched)) add_once(measures, run.watched);
  }
  return measures;
}

void check_measures(const std::vector<std::string>& measures, const std::vector<NamedMetrics>& runs) {
  std::vector<std::string> known;
  for (const auto& run : runs) {
    for (const auto& name : measures_of(run.metrics)) add_once(known, name);
  }
  for (const auto& measure : measures) {
    if (std::find(known.begin(), known.end(), measure) == known.end()) {
      fail_usage("--measure: '{}' is in no run{}; there are {}", measure, did_you_mean(measure, known),
                 fmt::join(known, ", "));
    }
    for (const auto& run : runs) {
      if (!has_measure(run.metrics, measure)) spdlog::warn("{}: has no {}", run.name, measure);
    }
  }
}

// Steps as epochs done: exact where one ended, in proportion between.
void to_epochs(Series& series, const train::MetricsFile& metrics) {
  Series ends;  // step over epoch
  ends.add(0, 0);
  for (const auto& line : metrics.lines) {
    if (line.kind != "epoch" || static_cast<double>(line.step) <= ends.x.back()) continue;
    ends.add(static_cast<double>(line.step), static_cast<double>(line.epoch));
  }
  if (ends.x.size() == 1) {
    series.x.clear();
    series.y.clear();
    return;
  }
  for (double& x : series.x) {
    const auto above = std::lower_bound(ends.x.begin(), ends.x.end(), x) - ends.x.begin();
    const size_t to = std::clamp<size_t>(static_cast<size_t>(above), 1, ends.x.size() - 1);
    const double share = (x - ends.x[to - 1]) / (ends.x[to] - ends.x[to - 1]);
    x = ends.y[to - 1] + share * (ends.y[to] - ends.y[to - 1]);
  }
}

Curve training_curve(const NamedMetrics& run, const std::string& measure, std::optional<double> smooth) {
  Series series = run.metrics.series("train", measure);
  if (series.x.empty()) series = run.metrics.series("epoch", measure);
  const double weight = smooth.value_or(fitting_weight(series.x.size()));
  if (weight > 0) series = smoothed(std::move(series), weight);
  series.name = run.name + (weight > 0 ? ", training (smoothed)" : ", training");
  return {.series = std::move(series)};
}

Curve validation_curve(const NamedMetrics& run, const std::string& measure) {
  Series series = run.metrics.series("validation", measure);
  series.name = run.name + ", validation";
  return {.series = std::move(series), .is_validation = true};
}

}  // namespace

Curves read_curves(const std::vector<fs::path>& paths, const CurveOptions& options) {
  const std::vector<NamedMetrics> runs = read_runs(paths);
  std::vector<std::string> measures = options.measures;
  if (measures.empty()) {
    measures = usual_measures(runs);
  } else {
    check_measures(measures, runs);
  }
  Curves curves{.x_label = options.x == Axis::kStep ? "optimizer steps" : "epochs", .runs = runs.size()};
  for (const auto& measure : measures) {
    Panel panel{.measure = measure};
    for (size_t i = 0; i < runs.size(); ++i) {
      for (Curve curve : {training_curve(runs[i], measure, options.smooth), validation_curve(runs[i], measure)}) {
        curve.run = i;
        if (options.x == Axis::kEpoch) to_epochs(curve.series, runs[i].metrics);
        if (range_of(curve.series.y)) panel.curves.push_back(std::move(curve));
      }
    }
    if (panel.curves.empty()) {
      spdlog::warn("{}: there is nothing to draw{}", measure,
                   options.x == Axis::kEpoch ? " as long as no epoch is done; draw it over steps (--x step)"
                                             : ", no value is finite");
      continue;
    }
    curves.panels.push_back(std::move(panel));
  }
  if (curves.panels.empty()) fail_usage("{}: there is nothing to draw", paths.front().string());
  return curves;
}

}  // namespace fovea::plot
