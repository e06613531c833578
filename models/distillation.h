#pragma once

#include <filesystem>
#include <optional>

#include "fovea/config/fields.h"
#include "fovea/core/enum_names.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/train/module.h"
#include "fovea/train/run.h"

namespace fovea::models {

/// What is learnt from a teacher: its probabilities, softened by a temperature (Hinton, Vinyals and Dean 2015), or the
/// class it finds most likely (Touvron et al. 2021).
enum class DistillationKind { kSoft, kHard };

constexpr auto enum_names(DistillationKind) {
  return std::to_array<EnumName<DistillationKind>>(
      {{DistillationKind::kSoft, "soft"}, {DistillationKind::kHard, "hard"}});
}

/// What a classifier that may learn from a teacher is told: a part of its section.
struct DistillationOptions {
  std::optional<std::filesystem::path> teacher;
  DistillationKind kind = DistillationKind::kSoft;
  double teacher_share = 0.5;
  double temperature = 3.0;
  void fields(config::Fields& f);
};

/// A trained classifier that teaches another (Hinton, Vinyals and Dean 2015): it is neither trained nor saved with the
/// student, and stays in evaluation mode. Its classes are the student's by name, in any order; images reach it
/// normalised as it was trained.
class Teacher {
 public:
  /// Loads the run's best checkpoint, else its last one. `assets`: of the student's data. Throws a usage Error for a
  /// run that does not classify, has other classes, or was trained on images of another size.
  Teacher(const DistillationOptions& options, const train::Entries& entries, const data::DataAssets& assets,
          at::Device device);

  /// The sum over the batch of T^2 KL(teacher || student), both softened by the temperature T; or of the cross-entropy
  /// with the teacher's classes.
  at::Tensor loss(const at::Tensor& student_logits, const data::Batch& batch) const;
  torch::nn::Module& network() { return run_.module->network(); }

 private:
  at::Tensor logits_of(const data::Batch& batch) const;  // of the student's classes

  DistillationKind kind_;
  double temperature_;
  train::LoadedRun run_;
  const classification::Classifier* classifier_;
  at::Tensor columns_;  // int64 (classes): the teacher's logit of each class of the student; undefined if the same
  at::Tensor scale_, shift_;  // (channels, 1, 1), from the student's pixels to the teacher's; undefined if the same
};

}  // namespace fovea::models
