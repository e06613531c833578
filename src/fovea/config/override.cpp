#include <fmt/format.h>

#include <string_view>

#include "fovea/config/characters.h"
#include "fovea/config/document.h"
#include "fovea/config/yaml.h"
#include "fovea/core/error.h"

namespace fovea::config {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Node parse_value(std::string_view text, const Origin& origin, const std::string& path) {
  text = trimmed(text);
  Node node;
  node.origin = origin;
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return node;
  if (text[0] == '[' || text[0] == '"' || text[0] == '\'') {
    node = parse_yaml_at(text, origin);
    if (node.is_scalar() || node.is_list()) return node;
  }
  if (node.is_map() || text[0] == '{') {
    fail_at(origin, fmt::format("expected a value or a list; set keys one by one, {}.KEY=VALUE", printable(path)));
  }
  node.kind = Node::Kind::kScalar;
  node.text = text;
  return node;
}

// The entry for the last key of the path; the maps on the way are made where they are missing.
Node::Entry& entry_at(Node& root, std::string_view path, const Origin& origin) {
  Node* map = &root;
  for (size_t start = 0;;) {
    const size_t dot = path.find('.', start);
    const std::string_view key = path.substr(start, dot == std::string_view::npos ? dot : dot - start);
    if (key.empty())
      fail_at(origin, origin.is_argument() ? "an empty key; expected KEY=VALUE or SECTION.KEY=VALUE"
                                           : "an empty key; expected KEY or SECTION.KEY");
    if (map->is_null()) {
      map->kind = Node::Kind::kMap;
      map->origin = origin;
    }
    if (!map->is_map()) {
      const std::string above = start == 0 ? "the document" : printable(path.substr(0, start - 1));
      fail_at(origin, fmt::format("{} holds a {}, so it has no key {} ({})", above, map->is_list() ? "list" : "value",
                                  quote(key), map->origin.text()));
    }
    Node::Entry* entry = map->find(key);
    if (entry == nullptr) entry = &map->entries.emplace_back(Node::Entry{std::string(key), origin, Node{}});
    if (dot == std::string_view::npos) return *entry;
    map = &entry->value;
    start = dot + 1;
  }
}

}  // namespace

void apply_override(Node& root, const std::string& argument) {
  if (argument.empty()) fail_usage("an empty argument; expected KEY=VALUE");
  const Origin origin{{}, 0, argument};
  check_characters(argument, origin);
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) fail_at(origin, "expected KEY=VALUE, found no '='");
  const std::string path(trimmed(std::string_view(argument).substr(0, equals)));
  Node value = parse_value(std::string_view(argument).substr(equals + 1), origin, path);
  set_value(root, path, origin, std::move(value));
}

void set_value(Node& root, const std::string& path, const Origin& key_origin, Node value) {
  Node::Entry& entry = entry_at(root, path, key_origin);
  if (entry.value.is_map()) {
    fail_at(key_origin, fmt::format("{0} is a section; set its keys, {0}.KEY{1}", printable(path),
                                    key_origin.is_argument() ? "=VALUE" : ": VALUE"));
  }
  entry.key_origin = key_origin;
  entry.value = std::move(value);
}

}  // namespace fovea::config
