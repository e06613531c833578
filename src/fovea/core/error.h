#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace fovea {

/// What went wrong decides the exit status of the program, whichever command it was.
///   kUsage, 2: what was given: an argument, a setting, or a file that they name, be it missing, damaged or unfit
///   kRun, 1: the work: nothing could be written, a training diverged, another process has the run
enum class ErrorKind { kRun, kUsage };

/// The one exception type. A message says what was expected, what came, and if possible what to do about it;
/// it names the file, line or key concerned and ends without a newline.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorKind kind = ErrorKind::kRun)
      : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws an Error about the work: fail("cannot write {}: {}", path, why).
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error about what was given: fail_usage("{}: expected {} bytes, found {}", path, want, got).
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), ErrorKind::kUsage);
}

}  // namespace fovea
