#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "fovea/config/fields.h"
#include "fovea/nn/dropout.h"
#include "fovea/nn/linear.h"
#include "fovea/tasks/regression/spec.h"
#include "fovea/train/module.h"

namespace fovea::models {

struct MLPOptions {
  int64_t num_inputs = 1;
  std::vector<int64_t> num_hiddens = {64, 64};
  int64_t num_outputs = 1;
  double dropout = 0.0;
};

/// Dense layers with a ReLU and dropout between them (d2l 5.1): dense0, dense1, ...
class MLPImpl : public torch::nn::Module {
 public:
  explicit MLPImpl(const MLPOptions& options);
  /// x (batch, num_inputs) -> (batch, num_outputs)
  at::Tensor forward(const at::Tensor& x);

 private:
  std::vector<nn::Linear> layers_;
  std::vector<nn::Dropout> dropouts_;
};
TORCH_MODULE(MLP);

/// `model: {name: mlp}`.
struct MLPConfig : config::Section {
  MLPOptions net;  // inputs and outputs are the data's
  void fields(config::Fields& f) override;
};

/// The network with its loss, the mean square of the error.
class MLPRegressor : public train::Module, public regression::Regressor {
 public:
  MLPRegressor(const MLPConfig& config, const regression::RegressionSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  train::LossTerms training_step(const data::Batch& batch, int64_t turn) override;
  train::LossTerms validation_step(const data::Batch& batch) override { return training_step(batch, 0); }
  std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t turn) const override;

  at::Tensor predict(const data::Batch& batch, nn::AttentionRecorder* = nullptr) const override {
    return network_.ptr()->forward(batch.tensor("x"));
  }

 private:
  MLP network_{nullptr};
};

train::ModelEntry mlp_entry();

}  // namespace fovea::models
