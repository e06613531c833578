#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::config {

/// Every setting as YAML that reads back to the same, wherever it is put: paths are absolute,
/// numbers exact. The order is that of the declarations.
std::string dump(const Section& root);

/// One setting of a section: its key path and its value as YAML.
struct KeyValue {
  std::string key;
  std::string value;

  bool operator==(const KeyValue&) const = default;
};

/// Every setting, for a table of what is in force.
std::vector<KeyValue> settings(const Section& root);

/// A setting that is a path or a list of them.
struct PathSetting {
  std::string key;
  std::vector<std::filesystem::path> paths;  ///< empty where it is null
};

/// Every setting that is a path.
std::vector<PathSetting> path_settings(const Section& root);

/// A setting in which two configurations differ.
struct Difference {
  std::string key;
  std::string before;  ///< as YAML; "absent" where only the other one has the key
  std::string after;
};

/// Where they differ, in order of declaration. `ignored` names keys, or sections with all their
/// keys.
std::vector<Difference> differences(const Section& before, const Section& after,
                                    const std::vector<std::string>& ignored = {});

}  // namespace fovea::config
