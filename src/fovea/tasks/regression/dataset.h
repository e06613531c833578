#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/hash.h"
#include "fovea/data/data_module.h"
#include "fovea/tasks/regression/spec.h"
#include "fovea/tasks/regression/table.h"

namespace fovea::regression {

/// A held-out part: a file of its own, or so many of the training rows.
struct HeldOutRowsConfig : config::Section {
  std::optional<std::filesystem::path> path;
  double size = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// `data: {name: table}`.
struct TableConfig : config::Section {
  std::filesystem::path path;
  int64_t num_targets = 1;
  bool standardise = true;
  HeldOutRowsConfig validation, test;
  int64_t batch_size = 32;
  void fields(config::Fields& f) override;
};

/// Mean and standard deviation of a column.
struct Scale {
  double mean = 0, stddev = 1;
  bool operator==(const Scale&) const = default;
};

/// From numbers as a user writes them to a model's input, and back.
class TableAssets : public data::DataAssets {
 public:
  /// `scales`: of the features, then of the targets. `num_examples`: how many rows there were to train on.
  TableAssets(int64_t num_features, std::vector<Scale> scales, int64_t num_examples);
  /// Reads table.json out of a checkpoint. Throws Error naming the file for whatever save() does not write.
  static std::shared_ptr<const TableAssets> load(const config::Section& config, const std::filesystem::path& dir);

  /// For models that remember the training rows: float32 (num_examples, columns), standardised.
  void keep_rows(const at::Tensor& rows);

  const RegressionSpec& spec() const override { return spec_; }
  void save(const std::filesystem::path& dir) const override;
  void check_same(const data::DataAssets& saved) const override;

  /// Rows of features as float32 (rows, num_features), standardised. Throws Error for a row of another length.
  at::Tensor features(const std::vector<std::vector<double>>& rows) const;
  /// Standardised targets (rows, num_targets) in the data's own units, float64.
  at::Tensor targets_in_units(const at::Tensor& y) const;

  /// float64 (num_features) and (num_targets).
  at::Tensor feature_means() const { return scale_tensor(0, spec_.num_features, &Scale::mean); }
  at::Tensor feature_stddevs() const { return scale_tensor(0, spec_.num_features, &Scale::stddev); }
  at::Tensor target_means() const { return scale_tensor(spec_.num_features, spec_.num_targets, &Scale::mean); }
  at::Tensor target_stddevs() const { return scale_tensor(spec_.num_features, spec_.num_targets, &Scale::stddev); }
  const std::vector<Scale>& scales() const { return scales_; }

 private:
  at::Tensor scale_tensor(int64_t first, int64_t count, double Scale::*member) const;

  RegressionSpec spec_;
  std::vector<Scale> scales_;
};

/// Rows of numbers in their three parts, in the data's own units, and what was read, for the start-up table.
struct TableParts {
  std::array<std::vector<std::vector<double>>, 3> rows;
  std::string read;
};

/// Rows of numbers, the last num_targets columns to be predicted from those before.
class TableData : public data::DataModule {
 public:
  TableData(const TableConfig& config, uint64_t seed, std::shared_ptr<const TableAssets> assets = nullptr);
  /// Rows to evaluate a model on: a module with this part only.
  TableData(const NumberTable& rows, std::shared_ptr<const TableAssets> assets, data::Part part = data::Part::kTest);
  /// A held-out part that has a file of its own is read without the training rows where those are gone.
  static std::unique_ptr<TableData> read_part(const TableConfig& config, uint64_t seed,
                                              std::shared_ptr<const TableAssets> assets, data::Part part);

  std::shared_ptr<const data::DataAssets> assets() const override { return assets_; }
  int64_t size(data::Part part) const override { return of(part).size(0); }
  data::BatchPlan plan(data::Part part, int64_t epoch) const override;
  data::Batch batch(data::Part part, int64_t epoch, const std::vector<int64_t>& examples) const override;
  const char* unit() const override { return "rows"; }
  uint64_t part_fingerprint(data::Part part) const override;
  uint64_t fingerprint() const override;
  std::vector<std::pair<std::string, std::string>> describe() const override;
  std::vector<std::string> warnings() const override;

 protected:
  /// Rows that come from elsewhere than a file. Without assets, those of the training rows are made.
  TableData(const TableParts& parts, int64_t num_targets, bool standardise, int64_t batch_size, uint64_t seed,
            std::shared_ptr<const TableAssets> assets);

 private:
  const at::Tensor& of(data::Part part) const { return parts_[static_cast<size_t>(part)]; }
  void add_part(Fnv1a& hash, data::Part part) const;
  at::Tensor standardised(const std::vector<std::vector<double>>& rows) const;

  int64_t batch_size_;
  uint64_t seed_;
  std::string read_;
  std::array<at::Tensor, 3> parts_;  // float32 (rows, columns), standardised
  std::shared_ptr<const TableAssets> assets_;
};

}  // namespace fovea::regression
