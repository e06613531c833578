#include "models/mlp.h"

#include <fmt/format.h>
#include <torch/torch.h>

namespace fovea::models {

MLPImpl::MLPImpl(const MLPOptions& o) {
  int64_t inputs = o.num_inputs;
  for (size_t i = 0; i <= o.num_hiddens.size(); ++i) {
    const int64_t outputs = i < o.num_hiddens.size() ? o.num_hiddens[i] : o.num_outputs;
    layers_.push_back(register_module("dense" + std::to_string(i), nn::Linear(inputs, outputs)));
    inputs = outputs;
    if (i < o.num_hiddens.size()) {
      dropouts_.push_back(register_module("dropout" + std::to_string(i), nn::Dropout(o.dropout)));
    }
  }
}

at::Tensor MLPImpl::forward(const at::Tensor& x) {
  at::Tensor y = x;
  for (size_t i = 0; i < dropouts_.size(); ++i) y = dropouts_[i]->forward(at::relu(layers_[i]->forward(y)));
  return layers_.back()->forward(y);
}

void MLPConfig::fields(config::Fields& f) {
  f("num_hiddens", net.num_hiddens, "widths of the hidden layers; []: a straight line", config::range(1, 65536));
  f("dropout", net.dropout, "share of activations set to 0 in training", config::half_open(0, 1));
}

MLPRegressor::MLPRegressor(const MLPConfig& config, const regression::RegressionSpec& spec) {
  MLPOptions options = config.net;
  options.num_inputs = spec.num_features;
  options.num_outputs = spec.num_targets;
  network_ = MLP(options);
  nn::assign_paths(*network_);
}

std::vector<int64_t> MLPRegressor::loss_counts(const data::Batch& batch, int64_t) const {
  return {batch.tensor("y").numel()};
}

train::LossTerms MLPRegressor::training_step(const data::Batch& batch, int64_t) {
  const regression::RegressionBatch b(batch);
  return {{"loss", at::mse_loss(network_->forward(b.x), b.y, at::Reduction::Sum), b.y.numel()}};
}

namespace {

std::vector<train::ProposedSetting> propose_mlp(const data::DataSpec&, const train::DataAmount& amount) {
  const int64_t width = amount.examples < 2000 ? 64 : amount.examples < 50'000 ? 128 : 256;
  const int64_t epochs = train::epochs_for(amount, amount.examples < 2000 ? 800 : 4000, 5, 200);
  return {{"model.name", "mlp"},
          {"model.num_hiddens", fmt::format("[{}, {}]", width, width), "widths of the hidden layers"},
          {"optimizer.name", "adam"},
          {"optimizer.learning_rate", amount.examples < 2000 ? "0.01" : "0.003"},
          {"schedule.name", "cosine"},
          {"train.max_epochs", std::to_string(epochs), "more if the validation still improves at the end"},
          {"train.keep_last", "1"}};
}

}  // namespace

train::ModelEntry mlp_entry() {
  auto entry = train::model_entry<MLPRegressor, MLPConfig, regression::RegressionSpec>(
      "mlp", "5.1", "dense layers that predict numbers");
  entry.propose = propose_mlp;
  return entry;
}

}  // namespace fovea::models
