#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/config/document.h"

namespace fovea::config {

/// Says where a value came from when it does not go together with another. Keys are relative to the
/// section that is checked and may lead into inner ones ("train.batch_size").
class Checker {
 public:
  /// For checks after reading, such as those that need the data: the document that was read, which
  /// has to live on.
  explicit Checker(const Node& document, std::string path = {}) : document_(document), path_(std::move(path)) {}

  Checker within(std::string_view key) const { return Checker(document_, full(key)); }

  /// True if the key was given in a file or on the command line.
  bool given(std::string_view key) const { return document_.find_path(full(key)) != nullptr; }

  /// Throws "x.yaml:3: model.num_heads: MESSAGE", or "x.yaml: model.num_heads (default): MESSAGE".
  template <typename... Args>
  [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    fail_with(key, fmt::format(format, std::forward<Args>(args)...));
  }

  /// The same for keys that do not go together: blames the first that stands on the command line,
  /// else in the file.
  template <typename... Args>
  [[noreturn]] void fail(std::initializer_list<std::string_view> keys, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_with(to_blame(keys), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string full(std::string_view key) const;
  std::string_view to_blame(std::initializer_list<std::string_view> keys) const;
  [[noreturn]] void fail_with(std::string_view key, const std::string& message) const;

  const Node& document_;
  std::string path_;
};

}  // namespace fovea::config
