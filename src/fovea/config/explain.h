#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::config {

/// One key as its declaration has it, for help and for suggestions.
struct Explained {
  /// Settings, and two kinds of headings: a section, and one of the names that it can have.
  enum class What { kSetting, kSection, kName };

  What what = What::kSetting;
  std::string key;    ///< the full path, "model.num_heads"
  std::string entry;  ///< the name that the section needs for this key to exist; else empty
  std::string help;
  std::string expected;                 ///< "a whole number from 1 to 65536", "one of plain, flash"
  std::string default_text;             ///< as YAML; "required" if there is none
  std::vector<std::string> outer = {};  ///< the names that the sections around need, outermost first
  std::string named = {};               ///< the section that `entry` is a name of: "model"; empty where there is none
};

/// Every key in the order of declaration, those of every name of a Named included, each after a
/// heading with the name's summary.
std::vector<Explained> explain(const Section& root);

/// The same as a table of at most `width` columns; 0: one line for each key, however long. `about` is a key, a section
/// or a name to keep to; empty for everything. An unknown one is a usage error that suggests one.
std::string explain_table(const Section& root, const std::string& about = "", int64_t width = 0);

}  // namespace fovea::config
