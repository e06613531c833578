#include "models/attention_pooling.h"

#include <torch/torch.h>

#include "fovea/nn/linear.h"

namespace fovea::models {
namespace {

class KernelPooling : public RememberedRows {
 public:
  KernelPooling(const nn::AttentionPoolingOptions& options, const regression::RegressionSpec& spec)
      : RememberedRows(spec), attention_(register_module("attention", nn::AttentionPooling(options))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& own, nn::AttentionRecorder* recorder) override {
    return attention_->forward(x, keys_, values_, own, recorder);
  }

 private:
  nn::AttentionPooling attention_;
};

class QueryBlindPooling : public RememberedRows {
 public:
  QueryBlindPooling(BlindPooling kind, const regression::RegressionSpec& spec) : RememberedRows(spec), kind_(kind) {
    if (kind == BlindPooling::kFullyConnected) dense_ = register_module("dense", nn::Linear(spec.num_examples, 1));
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor&, nn::AttentionRecorder*) override {
    // Without asking for the size of the batch, which a traced graph must not take for a constant.
    return pooled() + at::zeros_like(x.narrow(1, 0, 1));
  }

 private:
  at::Tensor pooled() {  // (1, num_targets)
    switch (kind_) {
      case BlindPooling::kMax:
        return values_.amax(0, true);
      case BlindPooling::kFullyConnected:
        return dense_->forward(values_.t()).t();
      default:
        return values_.mean(0, true);
    }
  }

  BlindPooling kind_;
  nn::Linear dense_{nullptr};
};

}  // namespace

RememberedRows::RememberedRows(const regression::RegressionSpec& spec) {
  if (spec.num_examples < 2) {
    fail_usage("model.name: pooling over the training rows needs 2 of them at least, found {}", spec.num_examples);
  }
  const auto rows = [&](const at::Tensor& given, int64_t columns) {
    return given.defined() ? given.clone() : at::zeros({spec.num_examples, columns});
  };
  keys_ = register_buffer("keys", rows(spec.x, spec.num_features));
  values_ = register_buffer("values", rows(spec.y, spec.num_targets));
}

PoolingRegressor::PoolingRegressor(std::shared_ptr<RememberedRows> network) : network_(std::move(network)) {
  nn::assign_paths(*network_);
}

std::vector<int64_t> PoolingRegressor::loss_counts(const data::Batch& batch, int64_t) const {
  return {batch.tensor("y").numel()};
}

train::LossTerms PoolingRegressor::training_step(const data::Batch& batch, int64_t) {
  const regression::RegressionBatch b(batch);
  const at::Tensor y = network_->forward(b.x, batch.tensor("row"), nullptr);
  return {{"loss", at::mse_loss(y, b.y, at::Reduction::Sum), b.y.numel()}};
}

train::LossTerms PoolingRegressor::validation_step(const data::Batch& batch) {
  const regression::RegressionBatch b(batch);
  return {{"loss", at::mse_loss(predict(batch), b.y, at::Reduction::Sum), b.y.numel()}};
}

at::Tensor PoolingRegressor::predict(const data::Batch& batch, nn::AttentionRecorder* recorder) const {
  return network_->forward(batch.tensor("x"), {}, recorder);
}

void NadarayaWatsonConfig::fields(config::Fields& f) {
  f("kernel", pooling.kernel, "how the weight of a training row falls with its distance");
  f("bandwidth", pooling.bandwidth, "distances are divided by it, in the units of the (standardised) features",
    config::above(0));
  f("learn_width", pooling.learn_width, "learn a factor w of the distances in place of 1 / bandwidth");
}

void NadarayaWatsonConfig::check(const config::Checker& c) const {
  if (pooling.learn_width && !nn::has_gradient(pooling.kernel)) {
    c.fail("learn_width", "the width of a {} kernel has no gradient", name_of(pooling.kernel));
  }
}

NadarayaWatson::NadarayaWatson(const NadarayaWatsonConfig& config, const regression::RegressionSpec& spec)
    : PoolingRegressor(std::make_shared<KernelPooling>(config.pooling, spec)) {}

void PoolingConfig::fields(config::Fields& f) {
  f("kind", kind, "what all queries get: the mean of the training targets, the greatest, or a learnt weighted sum");
}

Pooling::Pooling(const PoolingConfig& config, const regression::RegressionSpec& spec)
    : PoolingRegressor(std::make_shared<QueryBlindPooling>(config.kind, spec)) {}

train::ModelEntry nadaraya_watson_entry() {
  return train::model_entry<NadarayaWatson, NadarayaWatsonConfig, regression::RegressionSpec>(
      "nadaraya_watson", "11.2", "attention pooling over the training rows by a kernel of distance");
}

train::ModelEntry pooling_entry() {
  return train::model_entry<Pooling, PoolingConfig, regression::RegressionSpec>(
      "pooling", "11.2", "average, max or fully-connected pooling of the training targets: baselines");
}

}  // namespace fovea::models
