#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::cli {

/// "--n-best" for `n_best`.
std::string flag_name(std::string key);

/// Flags of a command made from the settings of sections: --n-best for `n_best`. Name, help, limits and default come
/// from the one declaration in Section::fields.
class SectionFlags {
 public:
  /// Adds the flags of a section to the command. A flag that another section has brought already serves both; where it
  /// means something else there, its help says both. `owner`:
  /// the task that the section belongs to; it ends the help of a new flag if the command serves several tasks.
  void add(CLI::App& command, config::Section& section, const std::string& owner, bool several);

  /// Whether the user set the flag of that key.
  bool is_given(const std::string& key) const;

  /// Gives the flags that the user set to the section. Throws a usage Error for a value that does not fit, and for a
  /// flag that this section does not have; the message says that `run` is a run of `task`.
  void apply(config::Section& section, const std::string& run, const std::string& task) const;

 private:
  struct Flag {
    std::string key;   // n_best
    std::string name;  // --n-best
    std::vector<std::string> owners;
    CLI::Option* option;
    std::shared_ptr<std::string> text;
    std::shared_ptr<bool> is_set;  // of a flag without a value
  };
  std::vector<Flag> flags_;
};

}  // namespace fovea::cli
