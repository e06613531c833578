#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/enum_names.h"
#include "fovea/nn/linear.h"

namespace fovea::train {

/// kAuto is CUDA where there is a usable GPU, else the CPU.
enum class DeviceChoice { kAuto, kCpu, kCuda };

constexpr auto enum_names(DeviceChoice) {
  return std::to_array<EnumName<DeviceChoice>>(
      {{DeviceChoice::kAuto, "auto"}, {DeviceChoice::kCpu, "cpu"}, {DeviceChoice::kCuda, "cuda"}});
}

/// `runtime:`. Where to compute; nothing here changes results beyond rounding.
struct RuntimeConfig : config::Section {
  DeviceChoice device = DeviceChoice::kAuto;
  int64_t threads = 0;
  nn::MatmulLibrary matmul = nn::MatmulLibrary::kAuto;
  void fields(config::Fields& f) override;
  /// Sets the threads and the matrix library of the process and returns the device.
  at::Device set_up() const;
};

/// Sets the number of CPU threads (0: leaves it) and returns the device. Throws a usage Error for kCuda where there is
/// no usable GPU, saying why.
at::Device set_up_runtime(DeviceChoice device, int64_t threads);

/// The number of CPU threads in use.
int64_t num_threads();

/// What `fovea info` prints: versions, CPU capability, devices, threads, build flags, as (name, value).
std::vector<std::pair<std::string, std::string>> runtime_info();

}  // namespace fovea::train
