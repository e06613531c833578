#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace fovea::exports {

/// What a comparison found. Differences are divided by the largest value compared with, where that is above 1.
struct Comparison {
  int64_t cases = 0;
  double largest = 0;
  std::string sizes;  // in words
};

inline constexpr double kExportTolerance = 1e-5;

/// Holds a loaded file against the live model, case by case.
class Comparing {
 public:
  /// Runs `compare` for one case, whose name and sizes go into any error. What TorchScript throws becomes an Error.
  void run(const std::string& at, const std::function<void()>& compare);
  /// Throws Error unless shapes are equal and values within kExportTolerance.
  void same(const char* what, const at::Tensor& exported, const at::Tensor& live);

  const std::string& at() const { return at_; }
  Comparison result;

 private:
  [[noreturn]] void failed(const std::string& why) const;
  std::string at_;
};

}  // namespace fovea::exports
