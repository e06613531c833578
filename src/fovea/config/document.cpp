#include "fovea/config/document.h"

#include <fmt/format.h>

#include <system_error>

#include "fovea/config/yaml.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"

namespace fovea::config {
namespace {

constexpr size_t kLongestQuote = 60;
constexpr size_t kLargestFile = 1 << 20;

}  // namespace

std::string Origin::text() const {
  if (is_argument()) return fmt::format("argument {}", quote(argument));
  return line > 0 ? fmt::format("{}:{}", file, line) : file;
}

Origin Origin::at_line(int new_line) const {
  Origin origin = *this;
  if (!is_argument()) origin.line = new_line;
  return origin;
}

const Node::Entry* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Node::Entry* Node::find(std::string_view key) {
  return const_cast<Entry*>(static_cast<const Node*>(this)->find(key));  // the node itself is not const
}

const Node::Entry* Node::find_path(std::string_view path) const {
  const size_t dot = path.find('.');
  const Entry* entry = find(path.substr(0, dot));
  if (entry == nullptr || dot == std::string_view::npos) return entry;
  return entry->value.find_path(path.substr(dot + 1));
}

std::string printable(std::string_view text) {
  std::string result;
  size_t size = text.size();
  if (size > kLongestQuote) {
    size = kLongestQuote;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;  // not inside a character
  }
  for (const char c : text.substr(0, size)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  if (size < text.size()) result += "...";
  return result;
}

std::string quote(std::string_view text) {
  return "'" + printable(text) + "'";
}

void fail_at(const Origin& origin, const std::string& what) {
  const std::string place = origin.text();
  throw Error(place.empty() ? what : place + ": " + what, ErrorKind::kUsage);
}

Node parse_yaml(std::string_view text, const std::string& file_name) {
  return parse_yaml_at(text, {file_name, 0, {}});
}

Node load_yaml(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail_usage("{}: no such file; expected a YAML configuration", path.string());
  if (std::filesystem::is_directory(status)) fail_usage("{}: a folder; expected a YAML file", path.string());
  try {
    return parse_yaml(read_maybe_gzip(path, kLargestFile), path.string());
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kUsage) throw;
    throw Error(e.what(), ErrorKind::kUsage);  // whatever is wrong with it, it is the configuration that is
  }
}

}  // namespace fovea::config
