#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/error.h"
#include "fovea/data/batch.h"
#include "fovea/data/data_spec.h"
#include "fovea/train/measure.h"
#include "fovea/train/proposal.h"

namespace fovea::data {
class DataAssets;
}

namespace fovea::train {

struct Entries;

/// A part of the loss: a sum and what it is a sum over, so that batches of different sizes can be put together.
struct LossTerm {
  std::string name;    // "loss", "smoothed_loss"
  at::Tensor sum;      // 0-dim
  int64_t count = 0;   // known on the host before the pass; 0 when nothing counts
  bool trains = true;  // false: only logged, no gradient comes from it
};
using LossTerms = std::vector<LossTerm>;

/// Parameters that the optimizer treats alike.
struct ParameterGroup {
  std::vector<std::string> names;  // canonical, as named_parameters() below gives them
  bool weight_decay = true;
  double learning_rate_factor = 1;
};

/// A part of an optimizer step that has a loss and an optimizer of its own. Networks that play against each other take
/// turns; most models have one turn.
struct Turn {
  std::string name;                    // for errors; may be empty
  std::vector<ParameterGroup> groups;  // no parameter is in two turns
  int64_t times = 1;                   // in a row, on the same batches
  double learning_rate_factor = 1;
};

/// A dimension of a parameter whose rows have names: those of a vocabulary, of classes.
struct LabelledAxis {
  std::string parameter;
  int64_t dim = 0;
  std::string axis;  // what data::DataAssets::labels is asked for
};

/// d2l's Module: it owns a network and knows its loss. The network itself is a plain torch::nn::Module.
class Module {
 public:
  virtual ~Module() = default;
  virtual torch::nn::Module& network() = 0;

  /// The terms of one batch in one of turns(). The step adds sum / (total count of the step) over the terms that train
  /// and over micro-batches, and differentiates that. A model without parameters learns by looking at the batch.
  virtual LossTerms training_step(const data::Batch& batch, int64_t turn) = 0;
  /// The counts that training_step's terms will have, in the same order.
  virtual std::vector<int64_t> loss_counts(const data::Batch& batch, int64_t turn) const = 0;
  /// What validation measures: a term for each of measures() that is not derived. In evaluation mode, without
  /// gradients.
  virtual LossTerms validation_step(const data::Batch& batch) = 0;

  /// What validation measures, the most important one first. `measured` says it before there is a model.
  static std::vector<Measure> measured() { return {loss_measure()}; }
  virtual std::vector<Measure> measures() const { return measured(); }

  /// How the parameters are stepped: one group of all, unless the model says otherwise.
  virtual std::vector<ParameterGroup> parameter_groups();
  /// One turn over parameter_groups(), unless the model says otherwise.
  virtual std::vector<Turn> turns();

  /// Called once before training, not before use: the place to load a teacher. `entries` are what names in a
  /// configuration stand for, `assets` those of the data.
  virtual void prepare_training(const Entries& /*entries*/, const data::DataAssets& /*assets*/, at::Device /*device*/) {
  }
  /// Networks that take part in training but are neither trained nor saved (a teacher). They are not part of
  /// network(). Valid after prepare_training().
  virtual std::vector<torch::nn::Module*> frozen() { return {}; }
  /// What the rows of parameters stand for, so that weights can be taken over by name (train/init_from.h).
  virtual std::vector<LabelledAxis> labelled_axes() const { return {}; }

  /// The model as what a contract promises (decode::Seq2Seq, classification::Classifier), or null.
  template <typename Contract>
  const Contract* as() const {
    return dynamic_cast<const Contract*>(this);
  }
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
  std::string chapter;  // of the book; empty if it is not in it
  std::string takes;    // the kind of data: DataSpec::kind()
  /// Throws Error for data of another kind or values that do not fit the data (see the message).
  std::function<std::unique_ptr<Module>(const config::Section&, const data::DataSpec&)> make;
  /// Module::measures() of such a model.
  std::function<std::vector<Measure>()> measured = [] { return Module::measured(); };
  /// Sizes of the model and a training that fit the amount of data: settings of model, optimizer, schedule and train.
  /// Empty: the model is never proposed (`fovea init`).
  std::function<std::vector<ProposedSetting>(const data::DataSpec&, const DataAmount&)> propose = {};
};

/// The entry of a model with the constructor Model(const Config&, const Spec&).
template <typename Model, typename Config, typename Spec>
ModelEntry model_entry(const std::string& name, const std::string& chapter, const std::string& summary) {
  return {.named = {name, summary, [] { return std::make_shared<Config>(); }},
          .chapter = chapter,
          .takes = Spec::kKind,
          .make = [name](const config::Section& section, const data::DataSpec& spec) -> std::unique_ptr<Module> {
            const auto* typed = dynamic_cast<const Spec*>(&spec);
            if (typed == nullptr) {
              fail_usage("model.name: {} needs data of {}, data.name gives {}", name, Spec::kKind, spec.kind());
            }
            return std::make_unique<Model>(dynamic_cast<const Config&>(section), *typed);
          },
          .measured = [] { return Model::measured(); }};
}

}  // namespace fovea::train
