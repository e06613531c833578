#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::config {

/// Where a key or value was written: a line of a file, or a `key=value` argument of the command
/// line.
struct Origin {
  std::string file;
  int line = 0;          ///< from 1; 0 if only the file is known
  std::string argument;  ///< "a.b=c"; empty for a file

  bool is_argument() const { return !argument.empty(); }

  /// The same file at that line; the same argument.
  Origin at_line(int new_line) const;

  /// "configs/x.yaml:3", "argument 'a.b=c'", or "" when nothing is known.
  std::string text() const;
};

/// A configuration before anybody has said what its keys mean: YAML's scalars, lists and maps with
/// their places.
struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  std::string text;            ///< of a scalar, as written but without quotes
  bool quoted = false;         ///< a scalar in quotes or a text block: never a number or a boolean
  std::vector<Node> items;     ///< of a list
  std::vector<Entry> entries;  ///< of a map, in the order of the file
  Origin origin;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }

  /// The entry of a map with that key, or null.
  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);

  /// The entry at a path of keys, "model.num_heads", or null.
  const Entry* find_path(std::string_view path) const;
};

struct Node::Entry {
  std::string key;
  Origin key_origin;
  Node value;
};

/// Reads one YAML document. Refused with a usage error that names file and line: what YAML forbids,
/// and what makes a configuration mean something else than it seems to: duplicate keys, anchors,
/// aliases, merge keys, tags, several documents, an empty file, tabs as indentation, text that is
/// not UTF-8, control characters, more than 64 levels.
Node parse_yaml(std::string_view text, const std::string& file_name);

/// parse_yaml of a file of at most 1 MiB.
Node load_yaml(const std::filesystem::path& path);

/// Sets one value as the command line does: "model.num_heads=8". The value is plain text
/// (`data.path=/a: b#c` is what it seems), or a YAML list or quoted text if it starts with a
/// bracket or a quote; nothing is null. Makes the maps on the way; a later argument wins. Malformed
/// ones, and ones that go through a value, are usage errors.
void apply_override(Node& root, const std::string& argument);

/// Sets the value at a path of keys, "model.num_heads", and says that the key was written at `key_origin`. Makes the
/// maps on the way. A path through a value, and one to a section that has keys already, are usage errors.
void set_value(Node& root, const std::string& path, const Origin& key_origin, Node value);

/// Text for a message: in single quotes, cut after 60 bytes, on one line and without control
/// characters.
std::string quote(std::string_view text);

/// A key or path for a message: the same without quotes.
std::string printable(std::string_view text);

/// "where: what", or only "what" when the place is not known; throws it as a usage error.
[[noreturn]] void fail_at(const Origin& origin, const std::string& what);

}  // namespace fovea::config
