#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace fovea {

/// What went wrong decides the exit status of the program: 1 while running, 2 in what the user asked for.
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

/// Throws an Error about a failed run: fail("{}: expected {} bytes, found {}", path, want, got).
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error about the command line or the configuration.
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), ErrorKind::kUsage);
}

}  // namespace fovea
