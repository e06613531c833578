// A whole model against its twin: the loss, its gradients, and ten steps of Adam on one batch, as the golden case has
// them.
#pragma once

#include "fovea/train/module.h"
#include "fovea/train/step.h"
#include "tests/numeric.h"
#include "tests/test.h"

inline double loss_of(const fovea::train::LossTerms& terms) {
  return terms[0].sum.item<double>() / static_cast<double>(terms[0].count);
}

inline void check_golden_steps(const fovea_tests::GoldenCase& c, fovea::train::Module& model,
                               const fovea::data::Batch& batch, int64_t count, double learning_rate) {
  const fovea::train::LossTerms terms = model.training_step(batch, 0);
  CHECK(terms[0].count == count);
  CHECK(model.loss_counts(batch, 0) == std::vector<int64_t>{count});
  CHECK(loss_of(terms) == Approx(c.output("loss").item<double>()).margin(1e-5));
  (terms[0].sum / count).backward();
  CHECK(c.gradient_difference(model.network()) < 1e-4);

  fovea::train::TrainingStep step(model, fovea::train::AdamConfig(/*is_decoupled=*/false), {.clip_norm = 1.0});
  const at::Tensor losses = c.get("adam.losses"), norms = c.get("adam.grad_norms");
  for (int64_t i = 0; i < 10; ++i) {
    const fovea::train::StepResult result = step({batch}, i, learning_rate);
    const double loss = result.terms[0].sum.item<double>() / static_cast<double>(result.terms[0].count);
    CHECK(loss == Approx(losses[i].item<double>()).margin(1e-4));
    CHECK(result.gradient_norm.item<double>() == Approx(norms[i].item<double>()).epsilon(1e-3));
  }
  CHECK(loss_of(model.training_step(batch, 0)) == Approx(c.get("adam.final_loss").item<double>()).margin(1e-4));
}
