#include "fovea/sweep/sweep_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/json.h"

namespace fovea::sweep {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kBands = "by_";  // how the keys of tables over bands begin

Json to_json(const Result& result) {
  return {{"member", result.member},
          {"evaluate", result.evaluate},
          {"training", result.training},
          {"report", result.report}};
}

Result result_of(const std::string& line, const std::string& place) {
  parse_json(line, place);  // its errors have the place
  const Json json = Json::parse(line);
  const auto has = [&](const char* key, bool (Json::*is)() const noexcept) {
    return json.is_object() && json.contains(key) && (json[key].*is)();
  };
  if (!has("member", &Json::is_string) || !has("evaluate", &Json::is_array) || !has("training", &Json::is_object) ||
      !json.contains("report")) {
    fail_usage("{}: expected the result of a member; remove the line to have it evaluated again", place);
  }
  return {.member = json["member"],
          .evaluate = json["evaluate"].get<std::vector<std::string>>(),
          .report = json["report"],
          .training = json["training"]};
}

std::optional<double> number_in(const Json& json, const std::string& name) {
  if (!json.is_object() || !json.contains(name) || !json[name].is_number()) return std::nullopt;
  return json[name].get<double>();
}

// Those with a point: counts and names are no scores.
std::vector<std::string> scores_of(const Json& report) {
  std::vector<std::string> names;
  for (const auto& [name, value] : report.items()) {
    if (value.is_number_float()) names.push_back(name);
  }
  return names;
}

// The results of each setup.
using ByMember = std::vector<std::vector<const Result*>>;

std::vector<std::string> all_measures(const ByMember& results) {
  std::vector<std::string> names;
  for (const auto& setup : results) {
    for (const Result* result : setup) {
      for (const Json* json : {&result->report, &result->training}) {
        for (const auto& [name, value] : json->items()) {
          if (value.is_number() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
      }
    }
  }
  return names;
}

void check_measures(const std::vector<std::string>& measures, const ByMember& results, const Sweep& sweep) {
  const auto known = all_measures(results);
  for (const auto& measure : measures) {
    if (known.empty() || std::find(known.begin(), known.end(), measure) != known.end()) continue;
    fail_usage("{}: measures: no result has '{}'; there are {}", sweep.file.string(), measure, fmt::join(known, ", "));
  }
}

Statistics statistics_of(const std::vector<const Result*>& results,
                         const std::function<std::optional<double>(const Result&)>& value_of) {
  std::vector<double> values;
  for (const Result* result : results) {
    const auto value = value_of(*result);
    if (value) values.push_back(*value);
  }
  return Statistics::of(values);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The row of a table for a band; null where there is none.
const Json* find_band(const Json& report, const Bands& bands, const std::string& name) {
  if (!report.is_object() || !report.contains(bands.key)) return nullptr;
  for (const auto& row : report[bands.key]) {
    if (row.contains(bands.label) && text_of(row[bands.label]) == name) return &row;
  }
  return nullptr;
}

// Tables over bands, as the results have them: a list of objects whose first key names the band.
std::vector<Bands> tables_of(const ByMember& results) {
  std::vector<Bands> tables;
  for (const auto& setup : results) {
    for (const Result* result : setup) {
      for (const auto& [key, rows] : result->report.items()) {
        if (!key.starts_with(kBands) || !rows.is_array() || rows.empty() || !rows.front().is_object()) continue;
        auto table = std::find_if(tables.begin(), tables.end(), [&](const Bands& t) { return t.key == key; });
        if (table == tables.end()) {
          table = tables.insert(tables.end(), Bands{.key = key, .label = rows.front().begin().key()});
          for (const auto& [name, value] : rows.front().items()) {
            if (name != table->label && !value.is_string()) table->measures.push_back(name);
          }
        }
        for (const auto& row : rows) {
          const std::string name = text_of(row.value(table->label, Json()));
          auto& names = table->names;
          if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
      }
    }
  }
  return tables;
}

void fill(Bands& bands, const ByMember& results) {
  for (const auto& measure : bands.measures) {
    auto& of_measure = bands.values.emplace_back();
    for (const auto& setup : results) {
      auto& of_setup = of_measure.emplace_back();
      for (const auto& name : bands.names) {
        of_setup.push_back(statistics_of(setup, [&](const Result& result) {
          const Json* row = find_band(result.report, bands, name);
          return row == nullptr ? std::nullopt : number_in(*row, measure);
        }));
      }
    }
  }
}

}  // namespace

std::optional<double> Result::measure(const std::string& name) const {
  const auto value = number_in(report, name);
  return value ? value : number_in(training, name);
}

Results::Results(std::filesystem::path file) : file_(std::move(file)) {
  if (!std::filesystem::exists(file_)) return;
  const std::string text = read_file(file_);
  int64_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at)
      results_.push_back(result_of(text.substr(at, end - at), fmt::format("{}:{}", file_.string(), number)));
    at = end + 1;
  }
}

const Result* Results::find(const std::string& member) const {
  for (const auto& result : results_) {
    if (result.member == member) return &result;
  }
  return nullptr;
}

void Results::put(Result result) {
  const auto same = [&](const Result& other) { return other.member == result.member; };
  const auto old = std::find_if(results_.begin(), results_.end(), same);
  if (old != results_.end()) {
    *old = std::move(result);
  } else {
    results_.push_back(std::move(result));
  }
  std::string lines;
  for (const auto& each : results_) lines += to_json(each).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  replace_file(file_, lines);
}

Statistics Statistics::of(const std::vector<double>& values) {
  Statistics s{.count = static_cast<int64_t>(values.size())};
  if (values.empty()) return s;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) s.mean += value / n;
  double squares = 0;
  for (const double value : values) squares += (value - s.mean) * (value - s.mean);
  if (values.size() > 1) s.spread = std::sqrt(squares / (n - 1));
  return s;
}

std::string Statistics::text() const {
  if (count == 0 || !std::isfinite(mean)) return "-";
  if (!(spread > 0)) {
    const bool is_whole = mean == std::floor(mean) && std::abs(mean) < 1e15;
    return is_whole || std::abs(mean) >= 1000 ? fmt::format("{:.0f}", mean) : fmt::format("{:.4g}", mean);
  }
  // Two digits of the spread: more of the mean say nothing.
  const int digits = std::clamp(1 - static_cast<int>(std::floor(std::log10(spread))), 0, 6);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, digits, spread, digits);
}

Findings findings_of(const Sweep& sweep, const Results& results) {
  Findings findings;
  ByMember of_setup;
  for (const auto& member : sweep.members) {
    auto setup = std::find_if(findings.setups.begin(), findings.setups.end(),
                              [&](const Setup& s) { return s.variant == member.variant && s.values == member.values; });
    if (setup == findings.setups.end()) {
      setup = findings.setups.insert(
          findings.setups.end(),
          Setup{.variant = member.variant, .values = member.values, .name = member.setup(sweep.grid_names)});
      of_setup.emplace_back();
    }
    const Result* result = results.find(member.name);
    if (result == nullptr || result->report.is_null()) continue;
    of_setup[static_cast<size_t>(setup - findings.setups.begin())].push_back(result);
    ++setup->seeds;
  }
  findings.measures = sweep.measures;
  check_measures(findings.measures, of_setup, sweep);
  for (const auto& setup : of_setup) {
    if (sweep.measures.empty() && findings.measures.empty() && !setup.empty()) {
      findings.measures = scores_of(setup.front()->report);
      findings.measures.emplace_back("minutes");
    }
  }
  for (size_t i = 0; i < findings.setups.size(); ++i) {
    for (const auto& measure : findings.measures) {
      findings.setups[i].measures.push_back(
          statistics_of(of_setup[i], [&](const Result& result) { return result.measure(measure); }));
    }
  }
  findings.bands = tables_of(of_setup);
  for (auto& bands : findings.bands) fill(bands, of_setup);
  return findings;
}

}  // namespace fovea::sweep
