#include "fovea/config/checker.h"

namespace fovea::config {

std::string Checker::full(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::string_view Checker::to_blame(std::initializer_list<std::string_view> keys) const {
  std::string_view in_file;
  for (const std::string_view key : keys) {
    const Node::Entry* entry = document_.find_path(full(key));
    if (entry == nullptr) continue;
    if (entry->key_origin.is_argument()) return key;
    if (in_file.empty()) in_file = key;
  }
  return in_file.empty() ? *keys.begin() : in_file;
}

void Checker::fail_with(std::string_view key, const std::string& message) const {
  const std::string path = full(key);
  if (const Node::Entry* entry = document_.find_path(path)) fail_at(entry->key_origin, path + ": " + message);
  fail_at({document_.origin.file, 0, {}}, path + " (default): " + message);
}

}  // namespace fovea::config
