#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::train {

/// `runtime:`. Where to compute; nothing here changes results beyond rounding.
struct RuntimeConfig : config::Section {
  std::string device = "auto";
  int64_t threads = 0;
  std::string matmul = "auto";
  void fields(config::Fields& f) override;
  /// Sets the threads and the matrix library of the process and returns the device.
  at::Device set_up() const;
};

/// Sets the number of CPU threads (0: leaves it) and returns the device: "cpu", "cuda", or "auto", which is CUDA where
/// there is a usable GPU, else the CPU. Throws a usage Error for cuda where there is none, saying why.
at::Device set_up_runtime(const std::string& device, int64_t threads);

/// The number of CPU threads in use.
int64_t num_threads();

/// What `fovea info` prints: versions, CPU capability, devices, threads, build flags, as (name, value).
std::vector<std::pair<std::string, std::string>> runtime_info();

}  // namespace fovea::train
