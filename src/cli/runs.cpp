#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/numbers.h"
#include "fovea/core/suggest.h"
#include "fovea/core/table.h"
#include "fovea/core/user_path.h"
#include "fovea/train/run_summary.h"

namespace fovea::cli {
namespace {

struct RunsFlags {
  std::vector<std::string> dirs, filters;
  std::string sort = "name";
  bool reverse = false, json = false;
};

struct ListedRun {
  std::string name;
  train::RunSummary run;
};

// A column of the table, and a key to sort and filter by.
struct Column {
  std::string key;
  Table::Align align;
  std::string (*text)(const ListedRun&);
  double (*number)(const ListedRun&);  // to sort by, NaN comes last; null: by the text
};

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

const std::vector<Column>& run_columns() {
  using enum Table::Align;
  static const std::vector<Column> columns = {
      {"name", kLeft, [](const ListedRun& r) { return r.name; }, nullptr},
      {"model", kLeft, [](const ListedRun& r) { return or_dash(r.run.model); }, nullptr},
      {"data", kLeft, [](const ListedRun& r) { return or_dash(r.run.data); }, nullptr},
      {"epochs", kRight,
       [](const ListedRun& r) {
         return r.run.max_epochs > 0 ? fmt::format("{}/{}", r.run.epochs, r.run.max_epochs) : std::string("-");
       },
       [](const ListedRun& r) { return static_cast<double>(r.run.epochs); }},
      {"watched", kLeft, [](const ListedRun& r) { return or_dash(r.run.watched); }, nullptr},
      {"best", kRight,
       [](const ListedRun& r) { return r.run.best ? fmt::format("{:.4g}", *r.run.best) : std::string("-"); },
       [](const ListedRun& r) { return r.run.best.value_or(std::numeric_limits<double>::quiet_NaN()); }},
      {"minutes", kRight, [](const ListedRun& r) { return fmt::format("{:.1f}", r.run.minutes); },
       [](const ListedRun& r) { return r.run.minutes; }},
      {"state", kLeft, [](const ListedRun& r) { return std::string(name_of(r.run.state)); }, nullptr},
  };
  return columns;
}

std::vector<std::string> column_keys() {
  std::vector<std::string> keys;
  for (const auto& column : run_columns()) keys.push_back(column.key);
  return keys;
}

const Column* find_column(const std::string& key) {
  for (const auto& column : run_columns()) {
    if (column.key == key) return &column;
  }
  return nullptr;
}

// The runs below the directories; with one directory, named by their paths in it.
std::vector<ListedRun> listed_runs(std::vector<std::string> dirs) {
  if (dirs.empty()) dirs = {"runs"};
  std::vector<ListedRun> runs;
  for (const auto& word : dirs) {
    const std::filesystem::path dir = user_path(word);
    for (const auto& path : train::find_runs(dir)) {
      const bool is_below = dirs.size() == 1 && path != dir;
      runs.push_back({(is_below ? path.lexically_relative(dir) : path).string(), train::summarize_run(path)});
    }
  }
  return runs;
}

bool same_value(const std::string& text, const std::string& wanted) {
  const auto a = parse_double(text), b = parse_double(wanted);
  return a && b ? *a == *b : text == wanted;
}

// What a run has for a key of a filter: a column's text, or a setting of its config.yaml.
std::optional<std::string> filtered_value(const ListedRun& listed, const std::string& key) {
  const Column* column = find_column(key);
  return column != nullptr ? std::optional(column->text(listed)) : listed.run.setting(key);
}

void keep_filtered(std::vector<ListedRun>& runs, const std::string& filter) {
  const size_t equals = filter.find('=');
  if (equals == std::string::npos) {
    std::erase_if(runs, [&](const ListedRun& listed) {
      const auto has_word = [&](const std::string& key) {
        return find_column(key)->text(listed).find(filter) != std::string::npos;
      };
      return !has_word("name") && !has_word("model") && !has_word("data") && !has_word("state");
    });
    return;
  }
  const std::string key = filter.substr(0, equals), wanted = filter.substr(equals + 1);
  const auto has_key = [&](const ListedRun& listed) { return filtered_value(listed, key).has_value(); };
  if (!runs.empty() && std::none_of(runs.begin(), runs.end(), has_key)) {
    fail_usage("--filter: '{}' is no column and no setting of any run{}; the columns are {}", key,
               did_you_mean(key, column_keys()), fmt::join(column_keys(), ", "));
  }
  std::erase_if(runs, [&](const ListedRun& listed) {
    const auto value = filtered_value(listed, key);
    return !value || !same_value(*value, wanted);
  });
}

void sort_runs(std::vector<ListedRun>& runs, const std::string& key, bool reverse) {
  const Column* column = find_column(key);
  if (column == nullptr) {
    fail_usage("--sort: expected one of {}, got '{}'{}", fmt::join(column_keys(), ", "), key,
               did_you_mean(key, column_keys()));
  }
  const auto is_less = [column](const ListedRun& a, const ListedRun& b) {
    return column->number != nullptr ? column->number(a) < column->number(b) : column->text(a) < column->text(b);
  };
  const auto known_end = std::stable_partition(runs.begin(), runs.end(), [column](const ListedRun& run) {
    return column->number == nullptr || !std::isnan(column->number(run));
  });
  std::stable_sort(runs.begin(), known_end,
                   [&](const ListedRun& a, const ListedRun& b) { return reverse ? is_less(b, a) : is_less(a, b); });
}

nlohmann::ordered_json run_json(const ListedRun& listed) {
  const train::RunSummary& run = listed.run;
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  nlohmann::ordered_json json = {{"name", listed.name},
                                 {"path", run.path.string()},
                                 {"model", text(run.model)},
                                 {"data", text(run.data)},
                                 {"epochs", run.epochs},
                                 {"max_epochs", run.max_epochs},
                                 {"watched", text(run.watched)},
                                 {"best", run.best ? nlohmann::ordered_json(*run.best) : nlohmann::ordered_json()},
                                 {"best_step", run.best_step},
                                 {"minutes", run.minutes},
                                 {"state", std::string(name_of(run.state))}};
  if (!run.problem.empty()) json["problem"] = run.problem;
  return json;
}

std::string runs_table(const std::vector<ListedRun>& runs) {
  std::vector<Table::Align> align;
  for (const auto& column : run_columns()) align.push_back(column.align);
  Table table({.header = column_keys(), .align = align, .width = output_width()});
  for (const auto& run : runs) {
    std::vector<std::string> cells;
    for (const auto& column : run_columns()) cells.push_back(column.text(run));
    table.add_row(cells);
  }
  return table.str();
}

int list_runs(const RunsFlags& flags) {
  std::vector<ListedRun> runs = listed_runs(flags.dirs);
  for (const auto& filter : flags.filters) keep_filtered(runs, filter);
  sort_runs(runs, flags.sort, flags.reverse);
  if (flags.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const auto& run : runs) json.push_back(run_json(run));
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return 0;
  }
  std::cout << runs_table(runs) << std::flush;
  for (const auto& listed : runs) {
    if (!listed.run.problem.empty()) spdlog::warn("{}", listed.run.problem);
  }
  return 0;
}

}  // namespace

void add_runs(CLI::App& app, Commands& commands) {
  auto flags = std::make_shared<RunsFlags>();
  auto* command = app.add_subcommand("runs", "List runs with their best scores and states");
  add_arguments(*command, flags->dirs, "[DIR ...]",
                "Directories that hold runs, also up to three levels down (default runs)");
  command
      ->add_option("--sort", flags->sort,
                   fmt::format("The column to sort by: {} (default name)", fmt::join(column_keys(), ", ")))
      ->type_name("KEY");
  command->add_flag("--reverse", flags->reverse, "Sort from the greatest to the least");
  command
      ->add_option("--filter", flags->filters,
                   "List only runs in which a column or a setting has this value (state=done, seed=1), or whose name, "
                   "model, data or state contains this word. Several filters: all must hold")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--json", flags->json, "One JSON list");
  command->footer(
      "States: training, a process writes the run; done, as long as its settings say; stopped before that; broken, its "
      "settings or its last checkpoint cannot be used.\n\n"
      "Examples:\n"
      "  fovea runs --sort best --filter model=transformer\n"
      "  fovea runs runs/old --filter optimizer.name=adam --filter done");
  commands.emplace_back(command, [flags] { return list_runs(*flags); });
}

}  // namespace fovea::cli
