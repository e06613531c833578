#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fovea::metrics {

/// What a classifier took for what: counts of (actual class, predicted class), and the scores made of them.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes);

  /// Both int64 (batch), on any device. Throws Error for a class outside 0 .. num_classes - 1.
  void add(const at::Tensor& actual, const at::Tensor& predicted);

  int64_t num_classes() const { return num_classes_; }
  int64_t count(int64_t actual, int64_t predicted) const;
  int64_t total() const;
  int64_t correct() const;
  double accuracy() const;  // NaN of nothing

  /// NaN is what 0/0 gives.
  struct Score {
    double precision = 0;  // of what was taken for the class, the share that is of it; NaN where nothing was
    double recall = 0;     // of what is of the class, the share that was found; NaN where there is nothing
    double f1 = 0;         // 2 found / (labels + predictions); NaN where the class is in neither
    int64_t support = 0;   // examples of the class
  };
  Score score(int64_t of_class) const;
  /// The mean over the classes, each counting once ("macro"), of the scores that are numbers; NaN where none is. Its
  /// support is the total. (sklearn's `average="macro", zero_division=nan`.)
  Score mean_score() const;

 private:
  int64_t num_classes_;
  std::vector<int64_t> counts_;  // (num_classes, num_classes)
};

}  // namespace fovea::metrics
