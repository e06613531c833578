#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/config/value.h"
#include "fovea/core/error.h"
#include "fovea/core/utf8.h"
#include "fovea/data/data_spec.h"
#include "fovea/train/proposal.h"

namespace fovea::tasks {

/// A user's own files, to be trained on.
struct ProposalRequest {
  std::vector<std::filesystem::path> files, validation, test;  // the last two: held-out parts of their own
  std::filesystem::path relative_to;                           // where the configuration will stand

  /// The first of the files that is a folder; nothing where none is.
  std::optional<std::filesystem::path> folder() const {
    for (const auto& file : files) {
      if (std::filesystem::is_directory(file)) return file;
    }
    return std::nullopt;
  }

  /// A file as YAML: relative to the configuration, unless it was given as an absolute path. A usage Error for a path
  /// that YAML cannot hold.
  std::string yaml_path(const std::filesystem::path& file) const {
    const auto relative = std::filesystem::absolute(file).lexically_normal().lexically_relative(
        std::filesystem::absolute(relative_to).lexically_normal());
    const std::string path = (file.is_absolute() || relative.empty() ? file : relative).string();
    if (!is_utf8(path) || !is_utf8(file.string())) {
      fail_usage("{}: the path is not UTF-8, so no configuration can hold it; rename it", path);
    }
    return config::yaml_text(path);
  }
};

/// What a task saw in the files, and the part of a configuration that it knows: `data`, what to watch.
struct Proposal {
  std::vector<std::pair<std::string, std::string>> facts;  // for people
  std::vector<std::string> warnings;
  std::vector<train::ProposedSetting> settings;
  std::shared_ptr<const data::DataSpec> spec;  // what the data will be: which models can learn from it
  train::DataAmount amount;
  std::string example;  // an input to try the trained model on, as it stands on a command line
};

/// A proposal, or why the files are of another kind: "pairs.tsv holds blank lines only".
using ProposalOrReason = std::variant<Proposal, std::string>;

/// How many of `count` examples to hold out: one in `divisor`, `most` at most, in a round number.
inline int64_t held_out(int64_t count, int64_t divisor = 20, int64_t most = 1000) {
  const int64_t held = count / divisor < most ? count / divisor : most;
  const int64_t unit = held >= 1000 ? 100 : held >= 20 ? 10 : 1;
  return held - held % unit;
}

}  // namespace fovea::tasks
