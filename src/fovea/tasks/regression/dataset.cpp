#include "fovea/tasks/regression/dataset.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fovea/config/checker.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/json.h"
#include "fovea/core/numbers.h"
#include "fovea/data/split.h"

namespace fovea::regression {
namespace {

constexpr const char* kFile = "table.json";
constexpr const char* kFormat = "fovea-table-1";
constexpr uint64_t kMaxFileBytes = 16 << 20;

using Rows = std::vector<std::vector<double>>;

Rows take(const Rows& rows, const std::vector<int64_t>& indices) {
  Rows taken;
  for (const int64_t i : indices) taken.push_back(rows[static_cast<size_t>(i)]);
  return taken;
}

// Of each column. A column that never changes is only shifted.
std::vector<Scale> measure_scales(const Rows& rows, bool standardise) {
  std::vector<Scale> scales(rows.front().size());
  if (!standardise) return scales;
  const auto count = static_cast<double>(rows.size());
  for (size_t c = 0; c < scales.size(); ++c) {
    double sum = 0, squares = 0;
    for (const auto& row : rows) sum += row[c];
    const double mean = sum / count;
    for (const auto& row : rows) squares += (row[c] - mean) * (row[c] - mean);
    const double stddev = std::sqrt(squares / count);
    if (!std::isfinite(mean) || !std::isfinite(stddev)) {
      fail_usage("column {}: its numbers are too large, their mean or variance overflows", c + 1);
    }
    scales[c] = {mean, stddev > 0 ? stddev : 1.0};
  }
  return scales;
}

}  // namespace

void HeldOutRowsConfig::fields(config::Fields& f) {
  f("path", path, "file of rows, as data.path");
  f("size", size, "how many training rows to hold out: a fraction below 1, or a number of rows", config::at_least(0));
}

void HeldOutRowsConfig::check(const config::Checker& c) const {
  if (path && size > 0) c.fail("size", "a file of its own is given, so nothing can be held out of the training rows");
}

void TableConfig::fields(config::Fields& f) {
  f("path", path, "TSV or CSV file of numbers, plain or gzip; the first line may name the columns", config::required);
  f("num_targets", num_targets, "the last columns, which are predicted from those before", config::range(1, 65536));
  f("standardise", standardise, "give each column mean 0 and standard deviation 1, measured on the training rows");
  f.section("validation", validation, "the part that training is watched on");
  f.section("test", test, "the held-out test set");
  f("batch_size", batch_size, "rows in a batch", config::range(1, 1048576));
}

TableAssets::TableAssets(int64_t num_features, std::vector<Scale> scales, int64_t num_examples)
    : scales_(std::move(scales)) {
  spec_.num_features = num_features;
  spec_.num_targets = static_cast<int64_t>(scales_.size()) - num_features;
  spec_.num_examples = num_examples;
}

void TableAssets::keep_rows(const at::Tensor& rows) {
  spec_.x = rows.narrow(1, 0, spec_.num_features);
  spec_.y = rows.narrow(1, spec_.num_features, spec_.num_targets);
}

std::shared_ptr<const TableAssets> TableAssets::load(const config::Section&, const std::filesystem::path& dir) {
  const std::string file = (dir / kFile).string();
  const nlohmann::json json = parse_json(read_file(dir / kFile, kMaxFileBytes), file);
  try {
    if (json.at("format") != kFormat) throw std::runtime_error("unknown format");
    const auto features = json.at("features").get<int64_t>();
    std::vector<Scale> scales;
    for (const auto& scale : json.at("scales")) {
      scales.push_back({scale.at("mean").get<double>(), scale.at("std").get<double>()});
      if (!std::isfinite(scales.back().mean) || !(scales.back().stddev > 0)) throw std::runtime_error("a bad scale");
    }
    if (features < 1 || static_cast<int64_t>(scales.size()) <= features) throw std::runtime_error("too few columns");
    // Version 0.1 of the format did not say how many rows there were; no model needed to know.
    const auto examples = json.value("examples", int64_t{0});
    if (examples < 0) throw std::runtime_error("a negative number of rows");
    return std::make_shared<TableAssets>(features, std::move(scales), examples);
  } catch (const std::exception& e) {
    fail_usage("{}: expected the scales of a table: {}", file, e.what());
  }
}

void TableAssets::save(const std::filesystem::path& dir) const {
  nlohmann::ordered_json scales = nlohmann::json::array();
  for (const auto& scale : scales_) scales.push_back({{"mean", scale.mean}, {"std", scale.stddev}});
  const nlohmann::ordered_json json = {
      {"format", kFormat}, {"features", spec_.num_features}, {"examples", spec_.num_examples}, {"scales", scales}};
  replace_file(dir / kFile, json.dump(2) + "\n");
}

void TableAssets::check_same(const data::DataAssets& saved) const {
  const auto* other = dynamic_cast<const TableAssets*>(&saved);
  if (other == nullptr) fail_usage("the checkpoint is not of a regression model");
  if (spec_.num_features != other->spec_.num_features || spec_.num_targets != other->spec_.num_targets) {
    fail_usage("the table is not the checkpoint's: it had {} and {}, now {} and {}",
               counted(other->spec_.num_features, "feature"), counted(other->spec_.num_targets, "target"),
               spec_.num_features, spec_.num_targets);
  }
  for (size_t c = 0; c < scales_.size(); ++c) {
    if (scales_[c] == other->scales_[c]) continue;
    fail_usage("the table is not the checkpoint's: column {} had mean {} and standard deviation {}, now {} and {}",
               c + 1, other->scales_[c].mean, other->scales_[c].stddev, scales_[c].mean, scales_[c].stddev);
  }
}

at::Tensor TableAssets::scale_tensor(int64_t first, int64_t count, double Scale::*member) const {
  at::Tensor values = at::empty({count}, at::kDouble);
  for (int64_t i = 0; i < count; ++i) {
    values.mutable_data_ptr<double>()[i] = scales_[static_cast<size_t>(first + i)].*member;
  }
  return values;
}

at::Tensor TableAssets::features(const std::vector<std::vector<double>>& rows) const {
  at::Tensor x = at::empty({static_cast<int64_t>(rows.size()), spec_.num_features}, at::kDouble);
  double* to = x.mutable_data_ptr<double>();
  for (const auto& row : rows) {
    if (static_cast<int64_t>(row.size()) != spec_.num_features) {
      fail_usage("expected {} {}, found {}", spec_.num_features, spec_.num_features == 1 ? "number" : "numbers",
                 row.size());
    }
    to = std::copy(row.begin(), row.end(), to);
  }
  return ((x - feature_means()) / feature_stddevs()).to(at::kFloat);
}

at::Tensor TableAssets::targets_in_units(const at::Tensor& y) const {
  return y.cpu().to(at::kDouble) * target_stddevs() + target_means();
}

namespace {

TableParts read_parts(const TableConfig& config, uint64_t seed) {
  const NumberTable table = read_table(config.path);
  TableParts parts;
  parts.read =
      fmt::format("{} of {}{}", counted(table.rows.size(), "row"), counted(table.columns(), "column"),
                  table.blank_lines > 0 ? fmt::format(", {} skipped", counted(table.blank_lines, "blank line")) : "");
  if (!table.names.empty()) parts.read += fmt::format("; its first line has names: {}", fmt::join(table.names, ", "));
  if (table.columns() <= config.num_targets) {
    fail_usage("data.num_targets: expected fewer targets than {} has columns ({}), found {}", config.path.string(),
               table.columns(), config.num_targets);
  }
  // Equal rows are in one part.
  std::vector<std::string> keys;
  for (const auto& row : table.rows) {
    std::string& key = keys.emplace_back();
    for (const double value : row) key += format_double(value) + ' ';
  }
  const data::Split split =
      data::split_by_source(keys, {.validation = config.validation.size, .test = config.test.size, .seed = seed});
  parts.rows = {take(table.rows, split.train), take(table.rows, split.validation), take(table.rows, split.test)};
  for (const auto& [held_out, rows] :
       {std::pair(&config.validation, &parts.rows[1]), std::pair(&config.test, &parts.rows[2])}) {
    if (!held_out->path) continue;
    NumberTable own = read_table(*held_out->path);
    check_same_columns(own, *held_out->path, table, config.path);
    *rows = std::move(own.rows);
  }
  return parts;
}

}  // namespace

TableData::TableData(const TableConfig& config, uint64_t seed, std::shared_ptr<const TableAssets> assets)
    : TableData(read_parts(config, seed), config.num_targets, config.standardise, config.batch_size, seed,
                std::move(assets)) {}

TableData::TableData(const TableParts& parts, int64_t num_targets, bool standardise, int64_t batch_size, uint64_t seed,
                     std::shared_ptr<const TableAssets> assets)
    : batch_size_(batch_size), seed_(seed), read_(parts.read), assets_(std::move(assets)) {
  std::shared_ptr<TableAssets> made;
  if (assets_ == nullptr) {
    const Rows& train = parts.rows[0];
    made = std::make_shared<TableAssets>(static_cast<int64_t>(train.front().size()) - num_targets,
                                         measure_scales(train, standardise), static_cast<int64_t>(train.size()));
    assets_ = made;
  }
  for (size_t i = 0; i < parts.rows.size(); ++i) parts_[i] = standardised(parts.rows[i]);
  if (made != nullptr) made->keep_rows(parts_[0]);
}

TableData::TableData(const NumberTable& rows, std::shared_ptr<const TableAssets> assets, data::Part part)
    : batch_size_(TableConfig().batch_size), seed_(0), assets_(std::move(assets)) {
  parts_.fill(standardised({}));
  parts_[static_cast<size_t>(part)] = standardised(rows.rows);
}

std::unique_ptr<TableData> TableData::read_part(const TableConfig& config, uint64_t seed,
                                                std::shared_ptr<const TableAssets> assets, data::Part part) {
  const HeldOutRowsConfig& held_out = part == data::Part::kValidation ? config.validation : config.test;
  std::error_code error;
  if (part == data::Part::kTrain || !held_out.path || std::filesystem::exists(config.path, error)) {
    return std::make_unique<TableData>(config, seed, std::move(assets));
  }
  return std::make_unique<TableData>(read_table(*held_out.path), std::move(assets), part);
}

at::Tensor TableData::standardised(const Rows& rows) const {
  const std::vector<Scale>& scales = assets_->scales();
  const auto columns = static_cast<int64_t>(scales.size());
  at::Tensor table = at::empty({static_cast<int64_t>(rows.size()), columns}, at::kFloat);
  float* to = table.mutable_data_ptr<float>();
  for (const auto& row : rows) {
    if (row.size() != scales.size())
      fail_usage("expected rows of {}, found {}", counted(columns, "column"), row.size());
    for (size_t c = 0; c < row.size(); ++c) *to++ = static_cast<float>((row[c] - scales[c].mean) / scales[c].stddev);
  }
  return table;
}

data::BatchPlan TableData::plan(data::Part part, int64_t epoch) const {
  const std::vector<int64_t> lengths(static_cast<size_t>(size(part)), 1);
  const data::BatchingOptions options{.batch_size = batch_size_};
  return part == data::Part::kTrain ? data::plan_training_batches(lengths, options, seed_, epoch)
                                    : data::plan_evaluation_batches(lengths, options);
}

data::Batch TableData::batch(data::Part part, int64_t, const std::vector<int64_t>& examples) const {
  const at::Tensor indices = at::tensor(examples, at::kLong);
  const at::Tensor rows = of(part).index_select(0, indices);  // (batch, columns)
  const RegressionSpec& spec = assets_->spec();
  data::Batch batch;
  batch.tensors["x"] = rows.narrow(1, 0, spec.num_features).contiguous();
  batch.tensors["y"] = rows.narrow(1, spec.num_features, spec.num_targets).contiguous();
  if (part == data::Part::kTrain) batch.tensors["row"] = indices;
  batch.examples = batch.items = rows.size(0);
  return batch;
}

void TableData::add_part(Fnv1a& hash, data::Part part) const {
  const at::Tensor& rows = of(part);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, rows.const_data_ptr<float>() + i, sizeof(bits));
    hash.add(bits);
  }
  hash.add(static_cast<uint64_t>(rows.size(0)));
}

uint64_t TableData::part_fingerprint(data::Part part) const {
  Fnv1a hash;
  add_part(hash, part);
  return hash.value;
}

uint64_t TableData::fingerprint() const {
  Fnv1a hash;
  add_part(hash, data::Part::kTrain);
  add_part(hash, data::Part::kValidation);
  return hash.value;
}

std::vector<std::pair<std::string, std::string>> TableData::describe() const {
  std::vector<std::pair<std::string, std::string>> lines = {{"table", read_}};
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    lines.emplace_back(data::part_name(part), counted(size(part), "row"));
  }
  return lines;
}

std::vector<std::string> TableData::warnings() const {
  std::vector<std::string> warnings;
  const at::Tensor& rows = of(data::Part::kTrain);
  if (rows.size(0) < 2) return warnings;
  const RegressionSpec& spec = assets_->spec();
  const at::Tensor varies = rows.ne(rows.narrow(0, 0, 1)).any(0);  // (columns)
  for (int64_t c = spec.num_features; c < spec.num_features + spec.num_targets; ++c) {
    if (varies[c].item<bool>()) continue;
    warnings.push_back(
        fmt::format("train: column {}, a target, is the same in all rows, so that there is nothing to learn", c + 1));
  }
  if (!varies.narrow(0, 0, spec.num_features).any().item<bool>()) {
    warnings.emplace_back("train: the features are the same in all rows, so that nothing can be told from them");
  }
  return warnings;
}

}  // namespace fovea::regression
