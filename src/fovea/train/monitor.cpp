#include "fovea/train/monitor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/train/measure.h"
#include "fovea/train/metrics_file.h"

namespace fovea::train {
namespace {

// The loss among the measures; NaN where there is none.
double loss_of(const MetricsLog::Values& values) {
  for (const auto& [name, value] : values) {
    if (name == loss_measure().name) return value;
  }
  return ProgressState::kNone;
}

}  // namespace

Monitor::Monitor(const TrainConfig& config, TrainState& state, MetricsLog& metrics, Progress& progress,
                 std::string unit)
    : config_(config), state_(state), metrics_(metrics), progress_(progress), unit_(std::move(unit)) {
  if (!progress_.plots()) return;
  const MetricsFile earlier = read_metrics(metrics_.path());
  const std::string loss = loss_measure().name;
  for (auto* curve : {&training_, &validation_}) {
    Series found = earlier.series(curve == &training_ ? "train" : "validation", loss);
    curve->x = std::move(found.x);
    curve->y = std::move(found.y);
  }
  show_curves();
}

void Monitor::add(StepResult result, int64_t step, int64_t items) {
  window_items_ += items;
  pending_.push_back({step, std::move(result)});
}

void Monitor::settle(const std::function<std::string()>& advice) {
  for (const auto& [step, result] : pending_) {
    if (result.gradient_norm.defined()) gradient_norm_ = result.gradient_norm.item<double>();
    const bool is_gradient_finite = !result.gradient_norm.defined() || std::isfinite(gradient_norm_);
    for (const auto& term : result.terms) {
      const double sum = term.sum.item<double>();
      if (!std::isfinite(sum) || !is_gradient_finite) {
        fail("step {}: the {} is not finite any more ({} {}, gradient norm {}); {}", step,
             std::isfinite(sum) ? "gradient" : term.name, term.name,
             sum / static_cast<double>(std::max<int64_t>(1, term.count)), gradient_norm_, advice());
      }
      state_.epoch_terms.add(term.name, sum, term.count);
      state_.window_terms.add(term.name, sum, term.count);
    }
  }
  pending_.clear();
}

void Monitor::log_step(double learning_rate, double elapsed_seconds) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - window_since_).count();
  shown_rate_ = static_cast<double>(window_items_) / std::max(1e-9, seconds);
  MetricsLog::Values values;
  for (const auto& term : state_.window_terms.all()) values.emplace_back(term.name, term.mean());
  if (!values.empty()) std::tie(shown_name_, shown_loss_) = values.front();
  values.emplace_back("learning_rate", learning_rate);
  if (!std::isnan(gradient_norm_)) values.emplace_back("gradient_norm", gradient_norm_);
  values.emplace_back(unit_ + "_per_second", shown_rate_);
  values.emplace_back("seconds", elapsed_seconds);
  metrics_.write("train", state_.step, state_.epoch + 1, values);
  training_.add(static_cast<double>(state_.step), loss_of(values));
  show_curves();
  state_.window_terms.clear();
  window_items_ = 0;
  window_since_ = now;
}

void Monitor::log_validation(const MetricsLog::Values& values) {
  metrics_.write("validation", state_.step, state_.epoch + 1, values);
  validation_.add(static_cast<double>(state_.step), loss_of(values));
  show_curves();
}

void Monitor::show_curves() {
  if (!progress_.plots()) return;
  progress_.set_curves({smoothed(training_, fitting_weight(training_.x.size())), validation_}, loss_measure().name,
                       "step");
}

void Monitor::show_progress(int64_t batches, double learning_rate, double elapsed_seconds) {
  ProgressState shown;
  shown.epoch = state_.epoch + 1;
  shown.num_epochs = config_.max_epochs;
  shown.done = state_.batch;
  shown.total = batches;
  shown.loss = shown_loss_;
  shown.loss_name = shown_name_;
  shown.lr = learning_rate;
  shown.rate = shown_rate_;
  shown.rate_unit = unit_ + "/s";
  const double done =
      static_cast<double>(state_.epoch) + static_cast<double>(state_.batch) / static_cast<double>(batches);
  shown.eta = elapsed_seconds / done * (static_cast<double>(config_.max_epochs) - done);
  if (config_.max_minutes) shown.eta = std::min(shown.eta, *config_.max_minutes * 60 - elapsed_seconds);
  progress_.update(shown);
}

}  // namespace fovea::train
