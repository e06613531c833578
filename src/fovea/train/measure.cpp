#include "fovea/train/measure.h"

#include <fmt/format.h>

#include <cmath>

namespace fovea::train {

std::string Measure::text(double value) const {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

Measure loss_measure() {
  return {.name = "loss"};
}

Measure accuracy_measure() {
  return {.name = "accuracy", .better = Measure::Better::kHigher};
}

Measure perplexity_measure() {
  return {.name = "perplexity", .digits = 2, .of = "loss", .derive = [](double loss) { return std::exp(loss); }};
}

const Measure* find_measure(const std::vector<Measure>& measures, const std::string& name) {
  for (const auto& measure : measures) {
    if (measure.name == name) return &measure;
  }
  return nullptr;
}

std::vector<std::string> names_of(const std::vector<Measure>& measures) {
  std::vector<std::string> names;
  for (const auto& measure : measures) names.push_back(measure.name);
  return names;
}

}  // namespace fovea::train
