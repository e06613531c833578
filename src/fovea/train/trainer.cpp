#include "fovea/train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/core/runtime.h"
#include "fovea/data/loader.h"
#include "fovea/nn/random.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/evaluation_mode.h"

namespace fovea::train {

const char* stop_reason_text(StopReason reason) {
  switch (reason) {
    case StopReason::kEpochs:
      return "all epochs done";
    case StopReason::kSteps:
      return "train.max_steps reached";
    case StopReason::kMinutes:
      return "train.max_minutes reached";
    case StopReason::kPatience:
      return "nothing better within train.patience";
    case StopReason::kSignal:
      return "stopped by a signal";
  }
  return "?";
}

double Evaluation::mean(const std::string& name) const {
  for (const auto& measure : measures) {
    if (measure.name == name) return measure.mean;
  }
  fail("evaluation: '{}' was not measured", name);
}

Evaluation evaluate_module(Module& module, const data::DataModule& data, data::Part part, at::Device device) {
  const EvaluationMode evaluating(module.network());
  const at::NoGradGuard no_grad;
  Evaluation evaluation;
  for (const auto& name : module.measures()) evaluation.measures.push_back({name});
  std::vector<int64_t> counts(evaluation.measures.size());
  data::Loader loader(data, part, 0);
  while (auto batch = loader.next()) {
    const LossTerms terms = module.validation_step(batch->to(device));
    for (size_t i = 0; i < terms.size(); ++i) {
      evaluation.measures.at(i).mean += terms[i].sum.item<double>();
      counts[i] += terms[i].count;
    }
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) evaluation.measures[i].mean /= static_cast<double>(counts[i]);
  }
  evaluation.loss = evaluation.measures.at(0).mean;
  evaluation.count = counts.at(0);
  return evaluation;
}

void check_watched(const ExperimentConfig& config, const Module& module, const data::DataModule& data) {
  if (config.train.watch != "accuracy") return;
  const auto measures = module.measures();
  if (std::find(measures.begin(), measures.end(), config.train.watch) == measures.end()) {
    fail_usage("train.watch: the model {} has no accuracy, it measures only {}", config.model.name,
               fmt::join(measures, ", "));
  }
  if (data.size(data::Part::kValidation) == 0) {
    fail_usage("train.watch: accuracy is measured in validation, and there is nothing to validate on");
  }
}

Trainer::Trainer(const ExperimentConfig& config, Module& module, const data::DataModule& data, const RunDirectory& run,
                 at::Device device, Progress& progress)
    : config_(config),
      train_(config.train),
      module_(module),
      data_(data),
      run_(run),
      device_(device),
      progress_(progress),
      optimizer_(make_optimizer(config.optimizer.as<OptimizerConfig>(), module)),
      schedule_(config.schedule.as<Schedule>()),
      config_yaml_(config::dump(config)) {
  if (train_.ema_decay) average_ = std::make_unique<WeightAverage>(module_.network(), *train_.ema_decay);
  check_watched(config_, module_, data_);
}

void Trainer::resume(const std::filesystem::path& checkpoint) {
  load_weights(checkpoint, module_.network());
  if (average_) {
    const WeightAverage::Scope averaged(*average_);
    load_weights(checkpoint, module_.network(), kAverageFile);
  }
  load_optimizer(checkpoint, *optimizer_);
  state_ = load_state(checkpoint / kStateFile);
  saved_step_ = state_.step;
  // Weights that were imported have not been trained on anything yet.
  if (state_.step > 0 && state_.data_fingerprint != data_.fingerprint()) {
    fail("{}: the data is not what the run was trained on: has the corpus changed?", checkpoint.string());
  }
}

StopReason Trainer::fit() {
  metrics_ = std::make_unique<MetricsLog>(run_.path(), state_.metrics_bytes, state_.step);
  started_ =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(state_.elapsed_seconds));
  window_since_ = Clock::now();
  module_.network().train();
  state_.data_fingerprint = data_.fingerprint();
  // A run may have been killed between saving the best state so far and marking it.
  CheckpointStore store = run_.checkpoints();
  const auto steps = store.list();
  if (state_.best && std::find(steps.begin(), steps.end(), state_.best_step) != steps.end()) {
    store.mark("best", state_.best_step);
  }
  // Or while checkpoints were removed, and perhaps nothing is left to be saved.
  if (saved_step_ >= 0) store.prune(train_.keep_last);
  std::optional<StopReason> reason = reason_to_stop();
  while (!reason) reason = fit_epoch();
  progress_.finish();
  if (saved_step_ != state_.step) save();
  return *reason;
}

// One epoch, or what is left of it. The order of examples is a function of (seed, epoch), so the batches done are
// simply left out.
std::optional<StopReason> Trainer::fit_epoch() {
  data::Loader loader(data_, data::Part::kTrain, state_.epoch, state_.batch);
  const int64_t batches = loader.batches();
  if (batches == 0) fail("there is not a single training batch");
  while (state_.batch < batches) {
    std::vector<data::Batch> group;
    while (static_cast<int64_t>(group.size()) < train_.accumulate) {
      auto batch = loader.next();
      if (!batch) break;
      group.push_back(batch->to(device_));
    }
    train_group(group);
    state_.batch += static_cast<int64_t>(group.size());
    ++state_.step;
    if (state_.step % train_.log_every == 0) log_step();
    show_progress(batches);
    if (state_.batch == batches) break;
    if (train_.checkpoint_every && state_.step % *train_.checkpoint_every == 0) save();
    if (auto reason = reason_to_stop()) return reason;
  }
  end_epoch();
  return reason_to_stop();
}

// One optimizer step. The loss of a micro-batch is divided by the counts of the whole group: how examples are cut
// into micro-batches does not change the gradient.
void Trainer::train_group(const std::vector<data::Batch>& group) {
  std::vector<int64_t> totals;
  for (const auto& batch : group) {
    const auto counts = module_.loss_counts(batch);
    totals.resize(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) totals[i] += counts[i];
    window_items_ += batch.items;
  }
  Pending pending{state_.step + 1, 0, at::zeros({}, at::TensorOptions(at::kDouble).device(device_)), {}};
  module_.network().zero_grad();
  for (size_t micro = 0; micro < group.size(); ++micro) {
    const nn::RandomScope random(static_cast<uint64_t>(config_.seed),
                                 static_cast<uint64_t>(state_.step * train_.accumulate) + micro);
    const LossTerms terms = module_.training_step(group[micro]);
    at::Tensor loss;
    for (size_t i = 0; i < terms.size(); ++i) {
      const at::Tensor mean = terms[i].sum / static_cast<double>(std::max<int64_t>(1, totals[i]));
      loss = loss.defined() ? loss + mean : mean;
      if (terms[i].name == "loss") {
        pending.sum += terms[i].sum.detach();
        pending.count += terms[i].count;
      }
    }
    loss.backward();
  }
  pending.gradient_norm = clip_gradients(named_parameters(module_.network()), train_.clip_norm);
  optimizer_->step(learning_rate());
  if (average_) average_->update(state_.step);
  pending_.push_back(std::move(pending));
}

double Trainer::learning_rate() const {
  return config_.optimizer.as<OptimizerConfig>().learning_rate * schedule_.factor(state_.step);
}

// Brings the losses of past steps to the host and adds them up in order, as doubles: when this happens does not
// change the sums.
void Trainer::settle_losses() {
  for (const auto& step : pending_) {
    const double sum = step.sum.item<double>();
    gradient_norm_ = step.gradient_norm.item<double>();
    if (!std::isfinite(sum) || !std::isfinite(gradient_norm_)) {
      fail("step {}: the {} is not finite any more (loss {}, gradient norm {}); {}", step.step,
           std::isfinite(sum) ? "gradient" : "loss", sum / static_cast<double>(std::max<int64_t>(1, step.count)),
           gradient_norm_, advice());
    }
    state_.loss_sum += sum;
    state_.loss_count += step.count;
    state_.window_loss_sum += sum;
    state_.window_loss_count += step.count;
  }
  pending_.clear();
}

// The last step may have ruined the weights though its loss was still good: such a checkpoint would be useless.
void Trainer::check_weights() {
  for (const auto& [name, tensor] : persistent_tensors(module_.network())) {
    if (!at::isfinite(tensor.sum()).item<bool>()) {
      fail("step {}: the weights {} are not finite any more; {}", state_.step, name, advice());
    }
  }
}

// What to say when the numbers have run away.
std::string Trainer::advice() const {
  const auto last = run_.checkpoints().step_of("last");
  return (last ? fmt::format("the last good checkpoint is step-{}", *last)
               : std::string("there is no checkpoint yet")) +
         ". A lower optimizer.learning_rate, a warm-up or train.clip_norm may help";
}

void Trainer::log_step() {
  settle_losses();
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - window_since_).count();
  shown_loss_ = state_.window_loss_sum / static_cast<double>(std::max<int64_t>(1, state_.window_loss_count));
  shown_rate_ = static_cast<double>(window_items_) / std::max(1e-9, seconds);
  metrics_->write(
      "train", state_.step, state_.epoch + 1,
      {{"loss", shown_loss_},
       {"learning_rate", config_.optimizer.as<OptimizerConfig>().learning_rate * schedule_.factor(state_.step - 1)},
       {"gradient_norm", gradient_norm_},
       {data_.unit() + std::string("_per_second"), shown_rate_},
       {"seconds", elapsed_seconds()}});
  state_.window_loss_sum = 0;
  state_.window_loss_count = 0;
  window_items_ = 0;
  window_since_ = now;
}

void Trainer::show_progress(int64_t batches) {
  ProgressState shown;
  shown.epoch = state_.epoch + 1;
  shown.num_epochs = train_.max_epochs;
  shown.done = state_.batch;
  shown.total = batches;
  shown.loss = shown_loss_;
  shown.lr = learning_rate();
  shown.rate = shown_rate_;
  shown.rate_unit = data_.unit() + std::string("/s");
  const double done =
      static_cast<double>(state_.epoch) + static_cast<double>(state_.batch) / static_cast<double>(batches);
  shown.eta = elapsed_seconds() / done * (static_cast<double>(train_.max_epochs) - done);
  if (train_.max_minutes) shown.eta = std::min(shown.eta, *train_.max_minutes * 60 - elapsed_seconds());
  progress_.update(shown);
}

void Trainer::end_epoch() {
  settle_losses();
  const double train_loss = state_.epoch_loss();
  std::string line = fmt::format("epoch {:>3}  step {:>6}  loss {:.4f}", state_.epoch + 1, state_.step, train_loss);
  const bool last = state_.epoch + 1 == train_.max_epochs;
  double watched = train_loss;
  const bool watches_training = train_.watch == "train" || data_.size(data::Part::kValidation) == 0;
  bool is_watched = watches_training;
  metrics_->write("epoch", state_.step, state_.epoch + 1, {{"loss", train_loss}, {"seconds", elapsed_seconds()}});
  if (data_.size(data::Part::kValidation) > 0 && ((state_.epoch + 1) % train_.validate_every == 0 || last)) {
    const Evaluation validation = validate();
    line += fmt::format("  validation {:.4f}", validation.loss);
    MetricsLog::Values values;
    for (const auto& [name, mean] : validation.measures) {
      values.emplace_back(name, mean);
      if (name != "loss") line += fmt::format("  {} {:.4f}", name, mean);
    }
    if (module_.seq2seq() != nullptr) {
      values.emplace_back("perplexity", std::exp(validation.loss));
      line += fmt::format("  ppl {:.2f}", values.back().second);
    }
    metrics_->write("validation", state_.step, state_.epoch + 1, values);
    if (!watches_training) {
      watched = validation.mean(train_.watch == "accuracy" ? "accuracy" : "loss");
      is_watched = true;
    }
  }
  state_.epoch += 1;
  state_.batch = 0;
  state_.loss_sum = 0;
  state_.loss_count = 0;
  const bool is_best = is_watched && watch(watched);
  save(is_best);
  progress_.line(line + fmt::format("  {:.0f} s{}", elapsed_seconds(), is_best ? "  best" : ""));
}

// With the averaged weights, where there are any.
Evaluation Trainer::validate() {
  std::optional<WeightAverage::Scope> averaged;
  if (average_) averaged.emplace(*average_);
  return evaluate_module(module_, data_, data::Part::kValidation, device_);
}

bool Trainer::watch(double value) {
  const bool higher = train_.watch == "accuracy";
  if (!std::isfinite(value) || (state_.best && (higher ? value <= *state_.best : value >= *state_.best))) {
    ++state_.validations_without_best;
    return false;
  }
  state_.best = value;
  state_.best_step = state_.step;
  state_.validations_without_best = 0;
  return true;
}

// Writes the checkpoint, and marks it as the last one and, if what was just watched was better than before, as the
// best.
void Trainer::save(bool is_best) {
  settle_losses();
  check_weights();
  state_.elapsed_seconds = elapsed_seconds();
  state_.metrics_bytes = metrics_->bytes();
  CheckpointStore store = run_.checkpoints();
  store.write(state_.step, [&](const std::filesystem::path& dir) {
    save_checkpoint(dir, module_, *optimizer_, state_, config_yaml_, *data_.assets(), average_.get());
  });
  store.mark("last", state_.step);
  if (is_best) store.mark("best", state_.step);
  store.prune(train_.keep_last);
  saved_step_ = state_.step;
}

std::optional<StopReason> Trainer::reason_to_stop() const {
  if (stop_signal() != 0) return StopReason::kSignal;
  if (state_.epoch >= train_.max_epochs) return StopReason::kEpochs;
  if (train_.max_steps && state_.step >= *train_.max_steps) return StopReason::kSteps;
  if (train_.max_minutes && elapsed_seconds() >= *train_.max_minutes * 60) return StopReason::kMinutes;
  if (train_.patience && state_.validations_without_best >= *train_.patience) return StopReason::kPatience;
  return std::nullopt;
}

double Trainer::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

}  // namespace fovea::train
