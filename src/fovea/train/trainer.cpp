#include "fovea/train/trainer.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/config/dump.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/core/signals.h"
#include "fovea/core/suggest.h"
#include "fovea/data/loader.h"
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
      return "interrupted";
  }
  return "?";
}

std::string Watched::text() const {
  switch (where) {
    case Where::kTraining:
      return "training " + measure.name;
    case Where::kValidation:
      return "validation " + measure.name;
    case Where::kJudge:
      return measure.name;
  }
  return measure.name;
}

void check_watch(const ExperimentConfig& config, const std::vector<Measure>& measures, const Judge& judge) {
  const std::string& watch = config.train.watch;
  std::vector<std::string> known = names_of(measures);
  for (const auto& name : names_of(judge.measures)) known.push_back(name);
  if (watch == "train" || watch == "validation" || std::find(known.begin(), known.end(), watch) != known.end()) return;
  fail_usage("train.watch: '{}' is not measured{}; the model {} and its task measure {}", watch,
             did_you_mean(watch, known), config.model.name, fmt::join(known, ", "));
}

Watched resolve_watched(const ExperimentConfig& config, const Module& module, const data::DataModule& data,
                        const Judge& judge) {
  using Where = Watched::Where;
  const std::string& watch = config.train.watch;
  const std::vector<Measure> measures = module.measures();
  const bool validates = data.size(data::Part::kValidation) > 0 && !measures.empty();
  if (watch == "train" || (watch == "validation" && !validates)) return {Where::kTraining, loss_measure()};
  if (watch == "validation") return {Where::kValidation, measures.front()};

  check_watch(config, measures, judge);
  const Measure* measured = find_measure(measures, watch);
  const Measure* judged = find_measure(judge.measures, watch);
  if (data.size(data::Part::kValidation) == 0) {
    fail_usage("train.watch: {} is measured in validation, and there is nothing to validate on", watch);
  }
  return measured != nullptr ? Watched{Where::kValidation, *measured} : Watched{Where::kJudge, *judged};
}

namespace {

// Of the networks that only teach: 0 where there are none.
uint64_t frozen_fingerprint(Module& module) {
  Fnv1a hash;
  const std::vector<torch::nn::Module*> networks = module.frozen();
  if (networks.empty()) return 0;
  for (torch::nn::Module* network : networks) {
    for (const auto& [name, tensor] : persistent_tensors(*network)) {
      const at::Tensor values = tensor.detach().cpu().contiguous();
      const auto* bytes = static_cast<const char*>(values.const_data_ptr());
      hash.add_text(name);
      for (size_t i = 0; i + sizeof(uint32_t) <= values.nbytes(); i += sizeof(uint32_t)) {
        uint32_t word = 0;
        std::memcpy(&word, bytes + i, sizeof(word));
        hash.add(word);
      }
    }
  }
  return hash.value;
}

}  // namespace

Trainer::Trainer(const ExperimentConfig& config, Module& module, const data::DataModule& data, const RunDirectory& run,
                 at::Device device, Progress& progress, Judge judge)
    : config_(config),
      train_(config.train),
      module_(module),
      data_(data),
      run_(run),
      device_(device),
      progress_(progress),
      judge_(std::move(judge)),
      watched_(resolve_watched(config, module, data, judge_)),
      step_(
          module, config.optimizer.as<OptimizerConfig>(),
          {.seed = static_cast<uint64_t>(config.seed), .accumulate = train_.accumulate, .clip_norm = train_.clip_norm},
          train_.freeze),
      schedule_(config.schedule.as<Schedule>()),
      total_steps_(training_steps(config, data)),
      config_yaml_(config::dump(config)),
      frozen_fingerprint_(frozen_fingerprint(module)) {
  if (train_.ema_decay) average_ = std::make_unique<WeightAverage>(module_.network(), *train_.ema_decay);
}

void Trainer::resume(const std::filesystem::path& checkpoint) {
  load_to_go_on(checkpoint, module_.network(), average_.get());
  load_optimizer(checkpoint, step_.optimizers());
  state_ = load_state(checkpoint / kStateFile);
  saved_step_ = state_.step;
  is_bad_ = state_.good_step != state_.step;
  if (!may_go_on_with(state_, data_)) {
    std::string files;
    for (const auto& file : config_.data_files()) files += " " + file;
    fail_usage(
        "{}: the data is not what the run was trained on: has the corpus changed?{}\nGive the old data, or train the "
        "new ones from these weights: fovea train CONFIG.yaml --init-from {}",
        checkpoint.string(), files, run_.path().string());
  }
  // Versions before wrote none.
  if (state_.frozen_fingerprint != 0 && state_.frozen_fingerprint != frozen_fingerprint_) {
    fail_usage(
        "{}: the teacher is not the one that the run has learnt from so far: its weights have changed. Give the old "
        "ones back, or train from these weights: fovea train CONFIG.yaml --init-from {}",
        checkpoint.string(), run_.path().string());
  }
}

StopReason Trainer::fit() {
  metrics_ = std::make_unique<MetricsLog>(run_.path(), state_.metrics_bytes, state_.step);
  monitor_ = std::make_unique<Monitor>(train_, state_, *metrics_, progress_, data_.unit());
  started_ =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(state_.elapsed_seconds));
  set_training_mode();
  note_data(state_, data_);
  state_.frozen_fingerprint = frozen_fingerprint_;
  // A run may have been killed between saving the best state so far and marking it.
  CheckpointStore store = run_.checkpoints();
  const auto steps = store.list();
  if (state_.best && std::find(steps.begin(), steps.end(), state_.best_step) != steps.end()) {
    store.mark("best", state_.best_step);
  }
  // It may have been killed while checkpoints were removed, and perhaps nothing is left to be saved.
  if (saved_step_ >= 0) store.prune(train_.keep_last);
  std::optional<StopReason> reason = reason_to_stop();
  while (!reason) reason = fit_epoch();
  progress_.finish();
  if (saved_step_ != state_.step) save();
  if (state_.validated_step != state_.step) validate_at_end();
  return *reason;
}

// What is frozen stays in evaluation mode: neither dropout nor running statistics change there.
void Trainer::set_training_mode() {
  module_.network().train();
  for (const auto& item : module_.network().named_modules("", /*include_self=*/false)) {
    if (is_below_any(item.key(), train_.freeze)) item.value()->eval();
  }
}

// One epoch, or what is left of it. The order of examples is a function of (seed, epoch), so the batches done are
// simply left out.
std::optional<StopReason> Trainer::fit_epoch() {
  const World& world = step_.world();
  data::Loader loader(data_, data::Part::kTrain, state_.epoch,
                      {.first = state_.batch, .rank = world.rank(), .ranks = world.size()});
  const int64_t batches = loader.batches();
  if (batches == 0) fail("there is not a single training batch");
  while (state_.batch < batches) {
    const std::vector<data::Batch> group = next_group(loader);
    StepResult result = step_(group, state_.step, learning_rate(state_.step));
    if (average_) average_->update(state_.step);
    state_.batch = std::min(batches, state_.batch + step_.micro_batches());
    ++state_.step;
    int64_t items = 0;
    for (const auto& batch : group) items += batch.items;
    monitor_->add(std::move(result), state_.step, items);
    if (state_.step % train_.log_every == 0) {
      settle();
      monitor_->log_step(learning_rate(state_.step - 1), elapsed_seconds());
    }
    monitor_->show_progress(batches, learning_rate(state_.step), elapsed_seconds());
    if (state_.batch == batches) break;
    if (train_.validate_every_steps && state_.step % *train_.validate_every_steps == 0) {
      validate_at_step();
    } else if (train_.checkpoint_every && state_.step % *train_.checkpoint_every == 0) {
      save();
    }
    if (auto reason = reason_to_stop()) return reason;
  }
  end_epoch();
  return reason_to_stop();
}

std::vector<data::Batch> Trainer::next_group(data::Loader& loader) {
  std::vector<data::Batch> group;
  while (static_cast<int64_t>(group.size()) < train_.accumulate) {
    auto batch = loader.next();
    if (!batch) break;
    group.push_back(batch->to(device_));
  }
  return group;
}

double Trainer::learning_rate(int64_t step) const {
  return config_.optimizer.as<OptimizerConfig>().learning_rate * schedule_.factor(step, total_steps_);
}

void Trainer::settle() {
  monitor_->settle([this] { return advice(); });
}

// The last step may have ruined the weights though its loss was still good: such a checkpoint would be useless.
void Trainer::check_weights() {
  for (const auto& [name, tensor] : persistent_tensors(module_.network())) {
    if (!at::isfinite(tensor.sum()).item<bool>()) {
      fail("step {}: the weights {} are not finite any more; {}", state_.step, name, advice());
    }
  }
}

// The last one whose weights no validation found bad, if it is still there; else the best.
std::optional<int64_t> Trainer::good_checkpoint() const {
  const auto steps = run_.checkpoints().list();
  for (const int64_t step : {state_.good_step, state_.best ? state_.best_step : -1}) {
    if (std::find(steps.begin(), steps.end(), step) != steps.end()) return step;
  }
  return std::nullopt;
}

// What to say when the numbers have run away.
std::string Trainer::advice() const {
  const auto good = good_checkpoint();
  const bool has_any = !run_.checkpoints().list().empty();
  return (good      ? fmt::format("the last good checkpoint is step-{}", *good)
          : has_any ? std::string("no checkpoint is good: the validation of none was finite")
                    : std::string("there is no checkpoint yet")) +
         ". A lower optimizer.learning_rate, a warm-up or train.clip_norm may help";
}

// Whether the task's scores are due at the end of this epoch.
bool Trainer::judges(bool is_last) const {
  if (judge_.measures.empty()) return false;
  const bool watches = watched_.where == Watched::Where::kJudge;
  if (!train_.evaluate_every && !watches) return false;
  return is_last || (state_.epoch + 1) % train_.evaluate_every.value_or(1) == 0;
}

void Trainer::end_epoch() {
  settle();
  std::string line = fmt::format("epoch {:>3}  step {:>6}", state_.epoch + 1, state_.step);
  MetricsLog::Values values;
  for (const auto& term : state_.epoch_terms.all()) {
    line += fmt::format("  {} {:.4f}", term.name, term.mean());
    values.emplace_back(term.name, term.mean());
  }
  std::optional<double> watched;
  if (watched_.where == Watched::Where::kTraining && !values.empty()) watched = values.front().second;
  values.emplace_back("seconds", elapsed_seconds());
  metrics_->write("epoch", state_.step, state_.epoch + 1, values);
  const bool is_last = state_.epoch + 1 == train_.max_epochs, is_judged = judges(is_last);
  if (is_last || is_judged || (state_.epoch + 1) % train_.validate_every == 0) {
    const Validated validated = validate(is_judged);
    line += validated.line;
    if (validated.watched) watched = validated.watched;
  }
  state_.epoch += 1;
  state_.batch = 0;
  state_.epoch_terms.clear();
  const bool best = is_best(watched);
  save(best);
  progress_.line(line + fmt::format("  {:.0f} s{}", elapsed_seconds(), best ? "  best" : ""));
}

// In the middle of an epoch, as train.validate_every_steps says.
void Trainer::validate_at_step() {
  settle();
  const Validated validated = validate(/*judge=*/false);
  const bool best = is_best(validated.watched);
  save(best);
  progress_.line(fmt::format("           step {:>6}{}  {:.0f} s{}", state_.step, validated.line, elapsed_seconds(),
                             best ? "  best" : ""));
}

// Where training ended between two validations. The checkpoint is written already and does not know of this one, so
// that a resumed run is the one that was never stopped.
void Trainer::validate_at_end() {
  if (data_.size(data::Part::kValidation) == 0) return;
  if (stop_signal() != 0) progress_.line("validating once more; a second signal stops at once");
  const Validated validated = validate(judges(/*is_last=*/true));
  const bool best = validated.watched && is_best(validated.watched);
  if (best) run_.checkpoints().mark("best", state_.step);
  progress_.finish();
  progress_.line(fmt::format("the end    step {:>6}{}  {:.0f} s{}", state_.step, validated.line, elapsed_seconds(),
                             best ? "  best" : ""));
}

// With the averaged weights, where there are any.
Trainer::Validated Trainer::validate(bool judge) {
  Validated validated;
  const std::vector<Measure> measures = module_.measures();
  if (data_.size(data::Part::kValidation) == 0 || measures.empty()) return validated;
  state_.validated_step = state_.step;
  std::optional<WeightAverage::Scope> averaged;
  if (average_) averaged.emplace(*average_);
  MetricsLog::Values values = evaluate_module(module_, data_, data::Part::kValidation, device_).values;
  if (judge) {
    const EvaluationMode evaluating(module_.network());
    const at::NoGradGuard no_grad;
    const auto scores = judge_.run(module_, data_, data::Part::kValidation, device_);
    for (size_t i = 0; i < scores.size(); ++i) values.emplace_back(judge_.measures[i].name, scores[i]);
  }
  monitor_->log_validation(values);
  is_bad_ = !values.empty() && !std::isfinite(values.front().second);
  if (is_bad_) {
    progress_.finish();
    spdlog::warn("step {}: the {} in validation is not finite, so this checkpoint is never the best", state_.step,
                 values.front().first);
  }
  validated.line = "  validation";
  for (const auto& [name, value] : values) {
    const Measure* measure = find_measure(measures, name);
    if (measure == nullptr) measure = find_measure(judge_.measures, name);
    validated.line += fmt::format(" {} {}", name, measure->text(value));
    if (watched_.where != Watched::Where::kTraining && name == watched_.measure.name) validated.watched = value;
  }
  return validated;
}

// Compares what was just measured with the best so far, and keeps it if it is better.
bool Trainer::is_best(std::optional<double> watched) {
  if (!watched) return false;
  if (is_bad_ || !std::isfinite(*watched) || (state_.best && !watched_.measure.is_better(*watched, *state_.best))) {
    ++state_.validations_without_best;
    return false;
  }
  state_.best = watched;
  state_.best_step = state_.step;
  state_.validations_without_best = 0;
  return true;
}

// Writes the checkpoint, and marks it as the last one and, if what was just watched was better than before, as the
// best.
void Trainer::save(bool is_best) {
  settle();
  check_weights();
  state_.elapsed_seconds = elapsed_seconds();
  state_.metrics_bytes = metrics_->bytes();
  if (!is_bad_) state_.good_step = state_.step;
  CheckpointStore store = run_.checkpoints();
  store.write(state_.step, [&](const std::filesystem::path& dir) {
    save_checkpoint(dir, module_, step_.optimizers(), state_, config_yaml_, *data_.assets(), average_.get());
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

std::vector<Trainer::Limit> Trainer::limits_reached() const {
  std::vector<Limit> limits;
  if (stop_signal() != 0) return limits;
  if (state_.epoch >= train_.max_epochs) limits.push_back({"train.max_epochs", std::to_string(2 * state_.epoch)});
  if (train_.max_steps && state_.step >= *train_.max_steps) {
    limits.push_back({"train.max_steps", std::to_string(2 * state_.step)});
  }
  if (train_.max_minutes && elapsed_seconds() >= *train_.max_minutes * 60) {
    limits.push_back({"train.max_minutes", fmt::format("{:g}", 2 * std::max(*train_.max_minutes, 1 / 60.0))});
  }
  if (train_.patience && state_.validations_without_best >= *train_.patience) {
    limits.push_back({"train.patience", std::to_string(2 * state_.validations_without_best)});
  }
  return limits;
}

double Trainer::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

}  // namespace fovea::train
