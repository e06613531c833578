#include "models/distillation.h"

#include <torch/torch.h>

#include "fovea/core/error.h"

namespace fovea::models {

void DistillationOptions::fields(config::Fields& f) {
  f("teacher", teacher, "run of a classifier on the same data whose predictions are learnt from; null: none");
  f("teacher_share", teacher_share, "with a teacher: its share of the loss, the labels have the rest",
    config::range(0, 1));
  f("temperature", temperature, "with a teacher: what both sides' logits are divided by before they are compared",
    config::above(0));
}

namespace {

train::LoadedRun load_teacher(const std::filesystem::path& run, const train::Entries& entries) {
  try {
    return train::load_run(entries, run);
  } catch (const Error& e) {
    throw Error(fmt::format("model.teacher: {}", e.what()), e.kind());
  }
}

}  // namespace

Teacher::Teacher(const DistillationOptions& options, const train::Entries& entries, at::Device device)
    : temperature_(options.temperature),
      run_(load_teacher(*options.teacher, entries)),
      classifier_(run_.module->as<classification::Classifier>()) {
  if (classifier_ == nullptr) {
    fail_usage("model.teacher: {} is a {} run, which does not classify", options.teacher->string(),
               run_.config.model.name);
  }
  run_.module->network().to(device);
  for (auto& parameter : run_.module->network().parameters()) parameter.requires_grad_(false);
}

at::Tensor Teacher::loss(const at::Tensor& student_logits, const data::Batch& batch) const {
  at::Tensor target;
  {
    const at::NoGradGuard no_grad;
    target = classifier_->logits(batch);
    if (target.sizes() != student_logits.sizes()) {
      fail_usage("model.teacher: it knows {} classes, the data has {}", target.size(1), student_logits.size(1));
    }
    target = at::log_softmax(target / temperature_, 1);
  }
  const at::Tensor own = at::log_softmax(student_logits / temperature_, 1);
  return at::kl_div(own, target, at::Reduction::Sum, /*log_target=*/true) * (temperature_ * temperature_);
}

}  // namespace fovea::models
