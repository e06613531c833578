#include "fovea/train/evaluation.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "fovea/train/evaluation_mode.h"
#include "fovea/train/train_state.h"

namespace fovea::train {

double Evaluation::value(const std::string& name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  fail("evaluation: '{}' was not measured", name);
}

Evaluation evaluate_module(Module& module, const data::DataModule& data, data::Part part, at::Device device,
                           Progress* progress) {
  const EvaluationMode evaluating(module.network());
  const at::NoGradGuard no_grad;
  TermSums sums;
  data::Loader loader(data, part, 0);
  ProgressState shown{.name = std::string("evaluating ") + data::part_name(part), .total = loader.batches()};
  while (auto batch = loader.next()) {
    for (const auto& term : module.validation_step(batch->to(device))) {
      sums.add(term.name, term.sum.item<double>(), term.count);
    }
    ++shown.done;
    if (progress != nullptr) progress->update(shown);
  }
  if (progress != nullptr) progress->finish();

  Evaluation evaluation;
  for (const Measure& measure : module.measures()) {
    const double mean = sums.mean(measure.derive == nullptr ? measure.name : measure.of);
    evaluation.values.emplace_back(measure.name, measure.derive == nullptr ? mean : measure.derive(mean));
  }
  if (!sums.all().empty()) evaluation.count = sums.all().front().count;
  return evaluation;
}

}  // namespace fovea::train
