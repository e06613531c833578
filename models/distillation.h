#pragma once

#include <filesystem>
#include <optional>

#include "fovea/config/fields.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/train/module.h"
#include "fovea/train/run.h"

namespace fovea::models {

/// What a classifier that may learn from a teacher is told: a part of its section.
struct DistillationOptions {
  std::optional<std::filesystem::path> teacher;
  double teacher_share = 0.5;
  double temperature = 3.0;
  void fields(config::Fields& f);
};

/// A trained classifier that teaches another (Hinton, Vinyals and Dean 2015): it is neither trained nor saved with the
/// student, and stays in evaluation mode. Its data must be of the student's kind, with the same classes.
class Teacher {
 public:
  /// Loads the run's best checkpoint, else its last one. Throws a usage Error for a run that does not classify.
  Teacher(const DistillationOptions& options, const train::Entries& entries, at::Device device);

  /// The sum over the batch of T^2 KL(teacher || student), both softened by the temperature T.
  at::Tensor loss(const at::Tensor& student_logits, const data::Batch& batch) const;
  torch::nn::Module& network() { return run_.module->network(); }

 private:
  double temperature_;
  train::LoadedRun run_;
  const classification::Classifier* classifier_;
};

}  // namespace fovea::models
