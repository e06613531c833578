#include "fovea/metrics/confusion.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"

namespace fovea::metrics {
namespace {

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::numeric_limits<double>::quiet_NaN();
}

// Of what is a number.
class Mean {
 public:
  void add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const {
    return count_ > 0 ? sum_ / static_cast<double>(count_) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t num_classes)
    : num_classes_(num_classes), counts_(static_cast<size_t>(num_classes * num_classes)) {}

void ConfusionMatrix::add(const at::Tensor& actual, const at::Tensor& predicted) {
  const at::Tensor a = actual.to(at::kCPU).contiguous(), p = predicted.to(at::kCPU).contiguous();
  if (a.sizes() != p.sizes()) {
    fail("confusion matrix: {} and {}", counted(a.numel(), "label"), counted(p.numel(), "prediction"));
  }
  const auto* from = a.const_data_ptr<int64_t>();
  const auto* to = p.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    for (const int64_t c : {from[i], to[i]}) {
      if (c < 0 || c >= num_classes_) fail("confusion matrix: expected classes 0 to {}, got {}", num_classes_ - 1, c);
    }
    ++counts_[static_cast<size_t>(from[i] * num_classes_ + to[i])];
  }
}

int64_t ConfusionMatrix::count(int64_t actual, int64_t predicted) const {
  return counts_.at(static_cast<size_t>(actual * num_classes_ + predicted));
}

int64_t ConfusionMatrix::total() const {
  int64_t sum = 0;
  for (const int64_t c : counts_) sum += c;
  return sum;
}

int64_t ConfusionMatrix::correct() const {
  int64_t sum = 0;
  for (int64_t c = 0; c < num_classes_; ++c) sum += count(c, c);
  return sum;
}

double ConfusionMatrix::accuracy() const {
  return share(correct(), total());
}

ConfusionMatrix::Score ConfusionMatrix::score(int64_t of_class) const {
  int64_t actual = 0, predicted = 0;
  for (int64_t c = 0; c < num_classes_; ++c) {
    actual += count(of_class, c);
    predicted += count(c, of_class);
  }
  const int64_t both = count(of_class, of_class);
  return {.precision = share(both, predicted),
          .recall = share(both, actual),
          .f1 = share(2 * both, actual + predicted),
          .support = actual};
}

ConfusionMatrix::Score ConfusionMatrix::mean_score() const {
  Mean precision, recall, f1;
  for (int64_t c = 0; c < num_classes_; ++c) {
    const Score s = score(c);
    precision.add(s.precision);
    recall.add(s.recall);
    f1.add(s.f1);
  }
  return {.precision = precision.value(), .recall = recall.value(), .f1 = f1.value(), .support = total()};
}

}  // namespace fovea::metrics
