#include "fovea/train/runtime.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <malloc.h>
#include <torch/torch.h>

#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/version.h"

namespace fovea::train {
namespace {

// The program does not link libtorch_cuda: without a GPU nobody wants its gigabytes loaded. Where there is a driver, it
// is loaded at the first question for a device and registers itself with torch; then our own kernels, if they were
// built (without them, layers take torch's).
bool cuda_is_usable() {
  static const bool loaded = [] {
    const auto load = [](const char* library) { return ::dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr; };
    if (!load("libcuda.so.1") || !load("libtorch_cuda.so")) return false;
    load("libfovea_ops_cuda.so");
    return true;
  }();
  return loaded && torch::cuda::is_available();
}

// A training step takes and gives back tensors of megabytes by the hundred. glibc returns those to the kernel at once
// and has them zeroed page by page the next time: a sixth of a small model's step. Kept, they are used again.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace

void RuntimeConfig::fields(config::Fields& f) {
  f("device", device, "auto takes CUDA where there is a usable GPU");
  f("threads", threads, "CPU threads; 0: as many as there are cores", config::range(0, 1024));
  f("matmul", matmul, "what multiplies matrices on the CPU; auto takes oneDNN where MKL leaves AVX-512 unused");
}

at::Device RuntimeConfig::set_up() const {
  nn::set_matmul_library(matmul);
  return set_up_runtime(device, threads);
}

at::Device set_up_runtime(DeviceChoice device, int64_t threads) {
  keep_freed_memory();
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  if (device == DeviceChoice::kCpu) return at::kCPU;
  const bool usable = cuda_is_usable();
  if (device == DeviceChoice::kCuda && !usable) {
    fail_usage("runtime.device: cuda was asked for, but {}",
               "no GPU can be used (no driver, or a LibTorch without CUDA)");
  }
  return usable ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

int64_t num_threads() {
  return at::get_num_threads();
}

std::vector<std::pair<std::string, std::string>> runtime_info() {
  std::vector<std::pair<std::string, std::string>> info = {
      {"fovea", kVersion},
      {"LibTorch", TORCH_VERSION},
      {"compiler", FOVEA_COMPILER},
      {"build type", FOVEA_BUILD_TYPE},
      {"build flags", FOVEA_BUILD_FLAGS},
      {"sanitizers", std::string(FOVEA_SANITIZE).empty() ? "none" : FOVEA_SANITIZE},
      {"CPU capability", at::get_cpu_capability()},
      {"CPU cores", std::to_string(std::thread::hardware_concurrency())},
      {"threads", std::to_string(at::get_num_threads())},
  };
  const auto gpus = cuda_is_usable() ? torch::cuda::device_count() : 0;
  info.emplace_back("matrix products", nn::matmul_library());
  info.emplace_back("CUDA devices", gpus > 0 ? std::to_string(gpus) : "none");
  return info;
}

}  // namespace fovea::train
