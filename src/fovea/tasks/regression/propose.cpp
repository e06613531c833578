#include "fovea/tasks/regression/propose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/core/numbers.h"
#include "fovea/data/text.h"
#include "fovea/tasks/regression/spec.h"
#include "fovea/tasks/regression/table.h"

namespace fovea::regression {
namespace {

constexpr int64_t kLooked = 100;  // lines that decide whether a file is a table
constexpr size_t kShownColumns = 6;

// Why the file is no table; empty where most of its first lines are rows of numbers.
std::string why_no_table(const std::string& text, const std::filesystem::path& file) {
  if (text.empty() || !foreign_format(text).empty() || text.find('\0') != std::string::npos) {
    return fmt::format("expected text, found in {} {}", file.string(), describe_content(text));
  }
  int64_t lines = 0, rows = 0;
  bool has_quotes = false;
  for (const auto line : data::split_lines(text)) {
    if (lines == kLooked) break;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++lines;
    try {
      has_quotes = has_quotes || line.find('"') != std::string_view::npos;
      rows += parse_row(line).size() > 1 ? 1 : 0;
    } catch (const Error&) {
      // Text: a header, or no table.
    }
  }
  if (lines == 0) return fmt::format("{} holds blank lines only", file.string());
  if (2 * rows > lines) return {};
  return fmt::format("{} of the first {} in {} {} two numbers or more{}", rows, counted(lines, "line"), file.string(),
                     rows == 1 || lines == 1 ? "holds" : "hold", has_quotes ? "; numbers stand without quotes" : "");
}

struct Column {
  std::string name;
  double least = 0, greatest = 0;
};

std::vector<Column> columns_of(const NumberTable& table) {
  std::vector<Column> columns(static_cast<size_t>(table.columns()));
  for (size_t c = 0; c < columns.size(); ++c) {
    const auto by_value = [c](const auto& a, const auto& b) { return a[c] < b[c]; };
    const auto [least, greatest] = std::minmax_element(table.rows.begin(), table.rows.end(), by_value);
    columns[c] = {c < table.names.size() ? table.names[c] : fmt::format("column {}", c + 1), (*least)[c],
                  (*greatest)[c]};
  }
  return columns;
}

}  // namespace

tasks::ProposalOrReason propose(const tasks::ProposalRequest& request) {
  if (request.files.size() != 1)
    return fmt::format("expected one table of numbers, got {}", counted(request.files.size(), "file"));
  if (request.folder()) return fmt::format("{} is a folder", request.folder()->string());
  const std::string text = read_maybe_gzip(request.files[0]);
  if (std::string reason = why_no_table(text, request.files[0]); !reason.empty()) return reason;
  const NumberTable table = parse_table(text, request.files[0].string());
  const auto rows = static_cast<int64_t>(table.rows.size());
  const std::vector<Column> columns = columns_of(table);
  const Column& target = columns.back();

  tasks::Proposal proposal;
  proposal.facts = {{"table", fmt::format("{} of {}{}", counted(rows, "row"), counted(columns.size(), "number"),
                                          table.names.empty() ? ", no header" : "")}};
  for (size_t c = 0; c < columns.size(); ++c) {
    if (c >= kShownColumns && c + 1 < columns.size()) continue;
    proposal.facts.emplace_back(columns[c].name,
                                fmt::format("from {:g} to {:g}{}", columns[c].least, columns[c].greatest,
                                            c + 1 == columns.size() ? "; to be predicted" : ""));
    if (columns[c].least == columns[c].greatest) {
      proposal.warnings.push_back(fmt::format("{} is always {:g}", columns[c].name, columns[c].least));
    }
  }
  if (rows < 50)
    proposal.warnings.push_back(fmt::format("only {}: a model will learn so few by heart", counted(rows, "row")));

  const int64_t validation = request.validation.empty() ? tasks::held_out(rows, 7, 2000) : 0;
  const int64_t test = request.test.empty() ? tasks::held_out(rows, 5, 5000) : 0;
  const int64_t training = rows - validation - test;
  const int64_t batch_size = training < 2000 ? 16 : training < 50000 ? 64 : 256;
  auto& settings = proposal.settings;
  const auto part = [&](const std::string& section, int64_t size, const std::vector<std::filesystem::path>& files,
                        const char* why) {
    if (files.size() > 1) fail_usage("--{}: expected one file of rows, got {}", section, files.size());
    if (!files.empty()) check_same_columns(read_table(files[0]), files[0], table, request.files[0]);
    settings.push_back({"data." + section + (files.empty() ? ".size" : ".path"),
                        files.empty() ? std::to_string(size) : request.yaml_path(files[0]), files.empty() ? why : ""});
  };
  settings.push_back({"data.name", "table", ""});
  settings.push_back({"data.path", request.yaml_path(request.files[0]), ""});
  settings.push_back(
      {"data.num_targets", "1", fmt::format("how many of the last columns to predict: {}", target.name)});
  part("validation", validation, request.validation, "rows that training is watched on");
  part("test", test, request.test, "rows that `fovea evaluate` measures on");
  settings.push_back({"data.batch_size", std::to_string(batch_size), ""});
  if (validation > 0 || !request.validation.empty()) {
    settings.push_back(
        {"train.watch", "r2", "the share of the variance that is explained decides which epoch is best"});
    settings.push_back({"train.evaluate_every", "5", "epochs"});
    settings.push_back({"train.validate_every", "5", "epochs"});
  }
  auto spec = std::make_shared<RegressionSpec>();
  spec->num_features = table.columns() - 1;
  proposal.spec = spec;
  proposal.amount = {.examples = training,
                     .items = training,
                     .steps_per_epoch = std::max<int64_t>((training + batch_size - 1) / batch_size, 1)};
  const auto& row = table.rows.front();
  for (size_t c = 0; c + 1 < row.size(); ++c) proposal.example += (c > 0 ? "," : "") + fmt::format("{:g}", row[c]);
  return proposal;
}

}  // namespace fovea::regression
