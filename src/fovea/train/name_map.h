#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::train {

/// What names in a foreign file of weights are called here. A text file of rules, one a line:
///
///     # their name              our name
///     embed.weight            = encoder.embedding.weight
///     enc.layers.*.attn.*     = encoder.blks.block*.attention.*
///     optimizer.*             = -
///     attn.in_proj_weight     = attention.W_q.weight, attention.W_k.weight, attention.W_v.weight
///
/// `*` stands for any text (as little as will do); the n-th one on the right is what the n-th on the left stood for.
/// `-` leaves a tensor out. Of several names on the right each gets an equal share of the rows, in their order. The
/// first rule that matches a whole name counts; names that no rule matches stay as they are. Blank lines and what
/// follows a # are ignored.
class NameMap {
 public:
  NameMap() = default;
  /// Throws Error naming `file` and the line: no `=`, a name that is empty or has spaces, more stars on the right.
  static NameMap parse(std::string_view text, const std::string& file);
  static NameMap load(const std::filesystem::path& path);

  /// Our names; none where the tensor is left out.
  std::vector<std::string> operator()(const std::string& name) const;
  /// The tensor under our name, or its shares under ours. Throws Error where its rows cannot be shared equally.
  std::vector<std::pair<std::string, at::Tensor>> apply(const std::string& name, const at::Tensor& tensor) const;
  /// Rules that matched nothing in any call so far, as they are written.
  std::vector<std::string> unused() const;

 private:
  struct Rule {
    std::vector<std::string> left;                // the pieces between stars
    std::vector<std::vector<std::string>> right;  // of each name; none: left out
    std::string text;
    mutable bool used = false;
  };
  std::vector<Rule> rules_;
};

}  // namespace fovea::train
