// A whole model against its twin: the loss, its gradients, and ten steps of Adam on one batch, as the golden case has
// them.
#pragma once

#include "fovea/train/module.h"
#include "fovea/train/optimizer.h"
#include "tests/numeric.h"
#include "tests/test.h"

inline double loss_of(const fovea::train::LossTerms& terms) {
  return terms[0].sum.item<double>() / static_cast<double>(terms[0].count);
}

inline void check_golden_steps(const fovea_tests::GoldenCase& c, fovea::train::Module& model, const fovea::data::Batch& batch,
                               int64_t count, double learning_rate) {
  const fovea::train::LossTerms terms = model.training_step(batch);
  CHECK(terms[0].count == count);
  CHECK(model.loss_counts(batch) == std::vector<int64_t>{count});
  CHECK(loss_of(terms) == Approx(c.output("loss").item<double>()).margin(1e-5));
  (terms[0].sum / count).backward();
  CHECK(c.gradient_difference(model.network()) < 1e-4);

  fovea::train::AdamConfig adam(false);
  const auto optimizer = train::make_optimizer(adam, model);
  const at::Tensor losses = c.get("adam.losses"), norms = c.get("adam.grad_norms");
  for (int64_t step = 0; step < 10; ++step) {
    model.network().zero_grad();
    const fovea::train::LossTerms now = model.training_step(batch);
    CHECK(loss_of(now) == Approx(losses[step].item<double>()).margin(1e-4));
    (now[0].sum / count).backward();
    const double norm = train::clip_gradients(train::named_parameters(model.network()), 1.0).item<double>();
    CHECK(norm == Approx(norms[step].item<double>()).epsilon(1e-3));
    optimizer->step(learning_rate);
  }
  CHECK(loss_of(model.training_step(batch)) == Approx(c.get("adam.final_loss").item<double>()).margin(1e-4));
}
