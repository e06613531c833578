#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::train {

/// What names in a foreign file of weights are called here. A text file of rules, one a line:
///
///     # their name              our name
///     embed.weight            = encoder.embedding.weight
///     enc.layers.*.attn.*     = encoder.blks.block*.attention.*
///     optimizer.*             = -
///
/// `*` stands for any text (as little as will do); the n-th one on the right is what the n-th on the left stood for.
/// `-` leaves a tensor out. The first rule that matches a whole name counts; names that no rule matches stay as they
/// are. Blank lines and what follows a # are ignored.
class NameMap {
 public:
  NameMap() = default;
  /// Throws Error naming `file` and the line: no `=`, a side that is empty or has spaces, more stars on the right.
  static NameMap parse(std::string_view text, const std::string& file);
  static NameMap load(const std::filesystem::path& path);

  /// Our name; nothing where the tensor is left out.
  std::optional<std::string> operator()(const std::string& name) const;
  /// Rules that matched nothing in any call so far, as they are written.
  std::vector<std::string> unused() const;

 private:
  struct Rule {
    std::vector<std::string> left, right;  // the pieces between stars
    bool leaves_out = false;
    std::string text;
    mutable bool used = false;
  };
  std::vector<Rule> rules_;
};

}  // namespace fovea::train
