#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fovea {

/// Sets the number of CPU threads (0: leaves it) and returns the device: "cpu", "cuda", or "auto", which is CUDA where
/// there is a usable GPU, else the CPU. Throws a usage Error for cuda where there is none, saying why.
at::Device set_up_runtime(const std::string& device, int64_t threads);

/// The number of CPU threads in use.
int64_t num_threads();

/// What `fovea info` prints: versions, CPU capability, devices, threads, build flags, as (name, value).
std::vector<std::pair<std::string, std::string>> runtime_info();

/// From here on SIGINT and SIGTERM ask for a stop instead of ending the process; a second one ends it.
void catch_stop_signals();
/// The signal that asked for a stop, or 0.
int stop_signal();

}  // namespace fovea
