#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "fovea/config/fields.h"
#include "fovea/nn/attention_pooling.h"
#include "fovea/tasks/regression/spec.h"
#include "fovea/train/module.h"

/// Models that remember the training rows and predict a number out of them (d2l 11.2).
namespace fovea::models {

/// The remembered rows, as buffers: keys (rows, num_features), values (rows, num_targets).
class RememberedRows : public torch::nn::Module {
 public:
  /// The training rows where the spec has them; zeros until a checkpoint is loaded where it has only their number.
  /// Throws Error for fewer than two rows: each leaves itself out in training.
  explicit RememberedRows(const regression::RegressionSpec& spec);
  /// x (batch, num_features), `own`: int64 (batch), the row that each is, or undefined. Returns (batch, num_targets).
  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& own, nn::AttentionRecorder* recorder) = 0;
  const at::Tensor& keys() const { return keys_; }

 protected:
  at::Tensor keys_, values_;
};

/// What both models have in common: the mean square of the error, each training row left out of its own keys.
class PoolingRegressor : public train::Module, public regression::Regressor {
 public:
  torch::nn::Module& network() override { return *network_; }
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override;
  train::LossTerms validation_step(const data::Batch& batch) override;
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t turn) const override;
  at::Tensor predict(const data::Batch& batch, nn::AttentionRecorder* recorder = nullptr) const override;
  at::Tensor keys() const override { return network_->keys(); }

 protected:
  explicit PoolingRegressor(std::shared_ptr<RememberedRows> network);

 private:
  std::shared_ptr<RememberedRows> network_;
};

/// `model: {name: nadaraya_watson}`.
struct NadarayaWatsonConfig : config::Section {
  nn::AttentionPoolingOptions pooling;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// Attention pooling by a kernel: d2l's nadaraya_watson, and its NWKernelRegression with a learnt width.
class NadarayaWatson : public PoolingRegressor {
 public:
  NadarayaWatson(const NadarayaWatsonConfig& config, const regression::RegressionSpec& spec);
};

/// Pooling that does not look at the query.
enum class BlindPooling { kAverage, kMax, kFullyConnected };

constexpr auto enum_names(BlindPooling) {
  return std::to_array<EnumName<BlindPooling>>({{BlindPooling::kAverage, "average"},
                                                {BlindPooling::kMax, "max"},
                                                {BlindPooling::kFullyConnected, "fully_connected"}});
}

/// `model: {name: pooling}`.
struct PoolingConfig : config::Section {
  BlindPooling kind = BlindPooling::kAverage;
  void fields(config::Fields& f) override;
};

/// The baselines beside attention: the same number for every query.
class Pooling : public PoolingRegressor {
 public:
  Pooling(const PoolingConfig& config, const regression::RegressionSpec& spec);
};

train::ModelEntry nadaraya_watson_entry();
train::ModelEntry pooling_entry();

}  // namespace fovea::models
