#pragma once

#include <string>
#include <vector>

namespace fovea::train {

/// Something that is measured: what it is called, which way is better, and how it is shown.
struct Measure {
  enum class Better { kLower, kHigher };

  std::string name;
  Better better = Better::kLower;
  int digits = 4;  // after the point, where it is printed

  /// Set for a measure that is a function of another one's mean: perplexity = exp(loss).
  std::string of = {};
  double (*derive)(double) = nullptr;

  /// The value as text; "-" where there is none (NaN).
  std::string text(double value) const;
  /// True if `value` is better than `best`.
  bool is_better(double value, double best) const { return better == Better::kLower ? value < best : value > best; }
};

/// The mean loss, which every model has.
Measure loss_measure();
/// The share of examples that are right.
Measure accuracy_measure();
/// exp(loss).
Measure perplexity_measure();

/// The measure of that name, or null.
const Measure* find_measure(const std::vector<Measure>& measures, const std::string& name);
std::vector<std::string> names_of(const std::vector<Measure>& measures);

}  // namespace fovea::train
