#include "fovea/metrics/confusion.h"

#include <ATen/ATen.h>

#include "fovea/core/error.h"

namespace fovea::metrics {
namespace {

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t num_classes)
    : num_classes_(num_classes), counts_(static_cast<size_t>(num_classes * num_classes)) {}

void ConfusionMatrix::add(const at::Tensor& actual, const at::Tensor& predicted) {
  const at::Tensor a = actual.to(at::kCPU).contiguous(), p = predicted.to(at::kCPU).contiguous();
  if (a.sizes() != p.sizes()) {
    fail("confusion matrix: {} labels and {} predictions", a.numel(), p.numel());
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
  Score mean;
  for (int64_t c = 0; c < num_classes_; ++c) {
    const Score s = score(c);
    mean.precision += s.precision / static_cast<double>(num_classes_);
    mean.recall += s.recall / static_cast<double>(num_classes_);
    mean.f1 += s.f1 / static_cast<double>(num_classes_);
    mean.support += s.support;
  }
  return mean;
}

}  // namespace fovea::metrics
