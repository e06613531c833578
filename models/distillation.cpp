#include "models/distillation.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/tasks/classification/images/image_assets.h"

namespace fovea::models {

void DistillationOptions::fields(config::Fields& f) {
  f("teacher", teacher, "run of a classifier on the same data whose predictions are learnt from; null: none");
  f("distillation", kind, "with a teacher: soft learns its probabilities, hard the class that it finds most likely");
  f("teacher_share", teacher_share, "with a teacher: its share of the loss, the labels have the rest",
    config::range(0, 1));
  f("temperature", temperature, "with a teacher, soft: what both sides' logits are divided by before they are compared",
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

// For each of `here` its place in `there`; undefined where both are the same.
at::Tensor places_by_name(const std::string& run, const std::vector<std::string>& here,
                          const std::vector<std::string>& there) {
  if (here == there) return {};
  std::vector<int64_t> places;
  for (const auto& name : here) {
    const auto found = std::find(there.begin(), there.end(), name);
    if (found == there.end() || here.size() != there.size()) {
      fail_usage("model.teacher: {} knows the classes {}; the data has {}", run, fmt::join(there, ", "),
                 fmt::join(here, ", "));
    }
    places.push_back(found - there.begin());
  }
  return at::tensor(places, at::kLong);
}

at::Tensor by_channel(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({-1, 1, 1});
}

}  // namespace

Teacher::Teacher(const DistillationOptions& options, const train::Entries& entries, const data::DataAssets& assets,
                 at::Device device)
    : kind_(options.kind),
      temperature_(options.temperature),
      run_(load_teacher(*options.teacher, entries)),
      classifier_(run_.module->as<classification::Classifier>()) {
  if (classifier_ == nullptr) {
    fail_usage("model.teacher: {} is a {} run, which does not classify", options.teacher->string(),
               run_.config.model.name);
  }
  const std::string name = options.teacher->string();
  columns_ = places_by_name(name, assets.labels("classes"), run_.assets->labels("classes"));
  if (columns_.defined()) columns_ = columns_.to(device);
  const auto* own = dynamic_cast<const classification::ImageAssets*>(&assets);
  const auto* its = dynamic_cast<const classification::ImageAssets*>(run_.assets.get());
  if (own != nullptr && its != nullptr) {
    if (own->channels() != its->channels() || own->height() != its->height() || own->width() != its->width()) {
      fail_usage("model.teacher: {} takes images of {} x {} x {}, the data gives {} x {} x {}", name, its->channels(),
                 its->height(), its->width(), own->channels(), own->height(), own->width());
    }
    if (own->mean() != its->mean() || own->stddev() != its->stddev()) {
      scale_ = (by_channel(own->stddev()) / by_channel(its->stddev())).to(device);
      shift_ = ((by_channel(own->mean()) - by_channel(its->mean())) / by_channel(its->stddev())).to(device);
    }
  }
  run_.module->network().to(device);
  for (auto& parameter : run_.module->network().parameters()) parameter.requires_grad_(false);
}

at::Tensor Teacher::logits_of(const data::Batch& batch) const {
  const at::NoGradGuard no_grad;
  at::Tensor logits;
  if (scale_.defined()) {
    data::Batch renormalised = batch;
    renormalised.tensors["image"] = batch.tensor("image") * scale_ + shift_;
    logits = classifier_->logits(renormalised);
  } else {
    logits = classifier_->logits(batch);
  }
  return columns_.defined() ? logits.index_select(1, columns_) : logits;
}

at::Tensor Teacher::loss(const at::Tensor& student_logits, const data::Batch& batch) const {
  const at::Tensor logits = logits_of(batch);
  if (kind_ == DistillationKind::kHard) {
    return at::cross_entropy_loss(student_logits, logits.argmax(1), {}, at::Reduction::Sum);
  }
  const at::Tensor target = at::log_softmax(logits / temperature_, 1);
  const at::Tensor own = at::log_softmax(student_logits / temperature_, 1);
  return at::kl_div(own, target, at::Reduction::Sum, /*log_target=*/true) * (temperature_ * temperature_);
}

}  // namespace fovea::models
