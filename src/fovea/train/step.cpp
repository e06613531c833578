#include "fovea/train/step.h"

#include <torch/torch.h>

#include <algorithm>

#include "fovea/nn/random.h"

namespace fovea::train {
namespace {

StepResult::Term& term_of(StepResult& result, const LossTerm& term) {
  for (auto& known : result.terms) {
    if (known.name == term.name) return known;
  }
  result.terms.push_back({term.name, at::zeros({}, at::TensorOptions(at::kDouble).device(term.sum.device())), 0});
  return result.terms.back();
}

}  // namespace

World& TrainingStep::alone() {
  static World world;
  return world;
}

TrainingStep::TrainingStep(Module& module, const OptimizerConfig& config, const StepOptions& options,
                           const std::vector<std::string>& freeze, World& world)
    : module_(module), options_(options), world_(world), optimizers_(module, config, freeze) {
  for (const auto& turn : optimizers_.turns()) substeps_ += turn.times;
}

StepResult TrainingStep::operator()(const std::vector<data::Batch>& group, int64_t step, double learning_rate) {
  StepResult result;
  std::vector<at::Tensor> norms;
  int64_t substep = 0;
  for (size_t i = 0; i < optimizers_.turns().size(); ++i) {
    const Optimizers::Turn& turn = optimizers_.turns()[i];
    for (int64_t time = 0; time < turn.times; ++time, ++substep) {
      module_.network().zero_grad();
      const auto first_draw = static_cast<uint64_t>((step * substeps_ + substep) * micro_batches());
      accumulate(group, static_cast<int64_t>(i), first_draw, result);
      if (!turn.parameters.empty()) norms.push_back(update(turn, learning_rate));
    }
  }
  if (world_.size() > 1) sum_over_ranks(result);
  if (!norms.empty()) result.gradient_norm = norms.size() == 1 ? norms[0] : at::stack(norms).norm();
  return result;
}

// A rank without a batch knows no terms, but takes part in the sums.
void TrainingStep::sum_over_ranks(StepResult& result) const {
  const auto count = static_cast<size_t>(world_.agree(static_cast<int64_t>(result.terms.size())));
  std::vector<at::Tensor> sums, counts;
  for (size_t i = 0; i < count; ++i) {
    const bool known = i < result.terms.size();
    sums.push_back(known ? result.terms[i].sum : at::zeros({}, at::kDouble));
    counts.push_back(at::full({}, known ? result.terms[i].count : int64_t{0}, at::kLong));
  }
  world_.sum(sums);
  world_.sum(counts);
  for (size_t i = 0; i < result.terms.size(); ++i) result.terms[i].count = counts[i].item<int64_t>();
}

std::vector<int64_t> TrainingStep::total_counts(const std::vector<data::Batch>& group, int64_t turn) const {
  std::vector<int64_t> totals;
  for (const auto& batch : group) {
    const auto counts = module_.loss_counts(batch, turn);
    totals.resize(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) totals[i] += counts[i];
  }
  if (world_.size() > 1) {
    // The last step of an epoch may leave a rank without a batch.
    totals.resize(static_cast<size_t>(world_.agree(static_cast<int64_t>(totals.size()))));
    const at::Tensor sums = at::tensor(totals, at::kLong);
    world_.sum({sums});
    std::copy_n(sums.const_data_ptr<int64_t>(), totals.size(), totals.begin());
  }
  return totals;
}

void TrainingStep::accumulate(const std::vector<data::Batch>& group, int64_t turn, uint64_t first_draw,
                              StepResult& result) {
  const std::vector<int64_t> totals = total_counts(group, turn);
  for (size_t i = 0; i < group.size(); ++i) {
    const auto micro = i * static_cast<uint64_t>(world_.size()) + static_cast<uint64_t>(world_.rank());
    const nn::RandomScope random(options_.seed, first_draw + micro);
    const LossTerms terms = module_.training_step(group[i], turn);
    at::Tensor loss;
    for (size_t t = 0; t < terms.size(); ++t) {
      StepResult::Term& logged = term_of(result, terms[t]);
      logged.sum += terms[t].sum.detach();
      logged.count += terms[t].count;
      if (!terms[t].trains) continue;
      const at::Tensor mean = terms[t].sum / static_cast<double>(std::max<int64_t>(1, totals[t]));
      loss = loss.defined() ? loss + mean : mean;
    }
    if (loss.defined() && loss.requires_grad()) loss.backward();
  }
}

at::Tensor TrainingStep::update(const Optimizers::Turn& turn, double learning_rate) {
  if (world_.size() > 1) {
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : turn.parameters) {
      if (!parameter.grad().defined()) at::Tensor(parameter).mutable_grad() = at::zeros_like(parameter);
      gradients.push_back(parameter.grad());
    }
    world_.sum(gradients);
  }
  const at::Tensor norm = clip_gradients(turn.parameters, options_.clip_norm);
  turn.optimizer->step(learning_rate * turn.learning_rate_factor);
  return norm;
}

}  // namespace fovea::train
