#include "fovea/tasks/regression/function.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea::regression {
namespace {

constexpr double kEnd = 5.0;
constexpr double kTestStep = 0.1;

double value_of(Curve curve, double x) {
  return 2 * std::sin(x) + (curve == Curve::kSinePower ? std::pow(x, 0.8) : x);
}

// Uniform numbers in [0, 1), the same on every machine.
std::vector<double> uniform(int64_t count, at::Generator& generator) {
  const at::Tensor numbers = at::rand({count}, generator, at::kDouble);
  return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + count};
}

std::vector<std::vector<double>> noisy_points(const FunctionConfig& config, int64_t count, at::Generator& generator) {
  std::vector<double> xs = uniform(count, generator);
  std::sort(xs.begin(), xs.end());
  const std::vector<double> a = uniform(count, generator), b = uniform(count, generator);
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double x = kEnd * xs[i];
    const double normal = std::sqrt(-2 * std::log1p(-a[i])) * std::cos(2 * std::numbers::pi * b[i]);  // Box-Muller
    rows.push_back({x, value_of(config.curve, x) + config.noise * normal});
  }
  return rows;
}

TableParts make_parts(const FunctionConfig& config, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  TableParts parts;
  parts.rows[0] = noisy_points(config, config.num_points, generator);
  parts.rows[1] = noisy_points(config, config.num_validation, generator);
  const auto count = static_cast<int64_t>(std::lround(kEnd / kTestStep));
  for (int64_t i = 0; i < count; ++i) {
    const double x = kTestStep * static_cast<double>(i);
    parts.rows[2].push_back({x, value_of(config.curve, x)});
  }
  parts.read = fmt::format("y = {} + noise of {}, x below {}",
                           config.curve == Curve::kSinePower ? "2 sin(x) + x^0.8" : "2 sin(x) + x", config.noise, kEnd);
  return parts;
}

}  // namespace

void FunctionConfig::fields(config::Fields& f) {
  f("curve", curve, "2 sin(x) + x^0.8, as in the book before its version 1.0, or 2 sin(x) + x, as since");
  f("num_points", num_points, "points to train on", config::range(1, 1 << 24));
  f("num_validation", num_validation, "points to watch the training on", config::range(0, 1 << 24));
  f("noise", noise, "standard deviation of the noise in both; the test part has none", config::at_least(0));
  f("standardise", standardise, "give x and y mean 0 and standard deviation 1, measured on the training points");
  f("batch_size", batch_size, "points in a batch", config::range(1, 1048576));
}

FunctionData::FunctionData(const FunctionConfig& config, uint64_t seed, std::shared_ptr<const TableAssets> assets)
    : TableData(make_parts(config, seed), /*num_targets=*/1, config.standardise, config.batch_size, seed,
                std::move(assets)) {}

}  // namespace fovea::regression
