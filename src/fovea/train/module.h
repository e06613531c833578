#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/batch.h"
#include "fovea/data/data_spec.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/decode/seq2seq.h"

namespace fovea::train {

/// A part of the loss: a sum and what it is a sum over, so that batches of different sizes can be put together.
struct LossTerm {
  std::string name;   // "loss" is the one that is watched
  at::Tensor sum;     // 0-dim
  int64_t count = 0;  // known on the host before the pass; 0 when nothing counts
};
using LossTerms = std::vector<LossTerm>;

/// Parameters that the optimizer treats alike.
struct ParameterGroup {
  std::vector<std::string> names;  // canonical, as named_parameters() below gives them
  bool weight_decay = true;
};

/// d2l's Module: it owns a network and knows its loss. The network itself is a plain torch::nn::Module.
class Module {
 public:
  virtual ~Module() = default;
  virtual torch::nn::Module& network() = 0;

  /// The terms of one batch. The trainer adds sum / (total count of the step) over terms and micro-batches, and
  /// differentiates that.
  virtual LossTerms training_step(const data::Batch& batch) = 0;
  /// The counts that training_step's terms will have, in the same order.
  virtual std::vector<int64_t> loss_counts(const data::Batch& batch) const = 0;
  /// What validation measures; in evaluation mode, without gradients.
  virtual LossTerms validation_step(const data::Batch& batch) = 0;

  /// The names of validation_step's terms, "loss" first.
  virtual std::vector<std::string> measures() const { return {"loss"}; }

  virtual std::vector<ParameterGroup> parameter_groups();
  /// The contract for decoding, if this model is a sequence-to-sequence one.
  virtual decode::Seq2Seq* seq2seq() { return nullptr; }
  /// The contract for classification, if this model is a classifier.
  virtual classification::Classifier* classifier() { return nullptr; }
};

/// name -> tensor in registration order. A tensor that is reached by several names comes once, under the first.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
NamedTensors named_parameters(torch::nn::Module& network);
/// The further names of tied tensors: {other name, canonical name}.
std::vector<std::pair<std::string, std::string>> tied_names(torch::nn::Module& network);
/// Parameters, and buffers that are not derived from the configuration: what a checkpoint holds.
NamedTensors persistent_tensors(torch::nn::Module& network);
int64_t count_parameters(torch::nn::Module& network);

/// A model that a config may name.
struct ModelEntry {
  config::NamedEntry named;
  std::string chapter;  // of the book
  /// Throws Error for data of another kind or values that do not fit the data (see the message).
  std::function<std::unique_ptr<Module>(const config::Section&, const data::DataSpec&)> make;
};

}  // namespace fovea::train
