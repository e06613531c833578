#pragma once

#include "fovea/core/enum_names.h"
#include "fovea/tasks/regression/dataset.h"

namespace fovea::regression {

/// The curves of the book's section 11.2: 2 sin x + x^0.8 before its version 1.0, 2 sin x + x since.
enum class Curve { kSinePower, kSineLine };

constexpr auto enum_names(Curve) {
  return std::to_array<EnumName<Curve>>({{Curve::kSinePower, "sine_power"}, {Curve::kSineLine, "sine_line"}});
}

/// `data: {name: noisy_function}`.
struct FunctionConfig : config::Section {
  Curve curve = Curve::kSinePower;
  int64_t num_points = 50;
  int64_t num_validation = 50;
  double noise = 0.5;
  bool standardise = false;
  int64_t batch_size = 50;
  void fields(config::Fields& f) override;
};

/// Points x in [0, 5), y = curve(x) + noise, the training points ascending. Points and noise are functions of the seed.
/// The test part is the curve itself, without noise, at 0, 0.1, ..., 4.9, as the book draws it.
class FunctionData : public TableData {
 public:
  FunctionData(const FunctionConfig& config, uint64_t seed, std::shared_ptr<const TableAssets> assets = nullptr);
};

}  // namespace fovea::regression
