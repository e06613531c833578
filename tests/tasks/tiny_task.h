// A task small enough to train in a test: its data, which a model learns in seconds, and a YAML.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

struct TinyTask {
  std::string kind;  // of the data: data::DataSpec::kind()
  std::string yaml;
  /// Writes `count` training examples, some of which are held out, where the YAML looks for them.
  std::function<void(const std::filesystem::path& dir, int64_t count)> write;
};
