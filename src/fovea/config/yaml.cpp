#include "fovea/config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>
#include <utility>

#include "fovea/config/characters.h"
#include "fovea/core/utf8.h"

namespace fovea::config {
namespace {

constexpr size_t kDeepest = 64;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Builds the tree from yaml-cpp's events, which have what its own tree has lost: marks, duplicates,
// anchors.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const Origin& base) : text_(text), base_(base) {}

  bool has_document() const { return documents_ > 0; }
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(mark, "expected one document, but a second one starts here");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { leaf(Node::Kind::kNull, mark, {}); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, kNoAliases); }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override { fail(mark, kNoAliases); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    check_tag(mark, tag);
    if (value.find('\0') != std::string::npos) fail(mark, "a value holds a NUL character");
    if (!is_utf8(value)) {  // yaml-cpp makes single bytes of these two escapes
      fail(mark, R"(the escapes \N and \_ are not supported; write \u0085 and \u00a0)");
    }
    leaf(Node::Kind::kScalar, mark, value, tag == "!");
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(Node::Kind::kList, mark);
  }
  void OnSequenceEnd() override { stack_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(Node::Kind::kMap, mark);
  }
  void OnMapEnd() override { stack_.pop_back(); }

  static constexpr const char* kNoAliases =
      "anchors and aliases (&name, *name) are not supported; write the values out";

 private:
  struct Level {
    Node* node;
    std::string key_path;                          // of the map or list itself
    std::unordered_map<std::string, int> lines{};  // of the keys so far
    bool has_key = false;                          // a key stands, its value is due
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    fail_at(base_.at_line(mark.line + 1), what);
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    const bool tagged = at(mark) == '!' || (tag != "!" && tag != "?" && !tag.empty());
    if (tagged) fail(mark, "tags (!name) are not supported; for text use quotes");
    if (tag == "!" && (at(mark) == '\'' || at(mark) == '"')) check_closed(mark);
  }

  char at(const YAML::Mark& mark) const {
    return static_cast<size_t>(mark.pos) < text_.size() ? text_[static_cast<size_t>(mark.pos)] : '\0';
  }

  // yaml-cpp lets a quote that is never closed swallow the rest of the file.
  void check_closed(const YAML::Mark& mark) const {
    const char closing = at(mark);
    for (size_t i = static_cast<size_t>(mark.pos) + 1; i < text_.size(); ++i) {
      const bool escape = closing == '"' ? text_[i] == '\\' : text_.substr(i, 2) == "''";
      if (escape) {
        ++i;
      } else if (text_[i] == closing) {
        return;
      }
    }
    fail(mark, fmt::format("the quote ({}) that opens here is never closed", closing));
  }

  void leaf(Node::Kind kind, const YAML::Mark& mark, const std::string& value, bool quoted = false) {
    if (key_is_due()) {
      if (kind == Node::Kind::kNull) fail(mark, "a key is empty");
      add_key(value, quoted, mark);
      return;
    }
    Node& node = place(mark);
    node.kind = kind;
    node.text = value;
    node.quoted = quoted;
  }

  void open(Node::Kind kind, const YAML::Mark& mark) {
    if (key_is_due()) fail(mark, "a key has to be plain text, found a list or a map (a bracket never closed?)");
    if (stack_.size() >= kDeepest) fail(mark, fmt::format("nested deeper than {} levels", kDeepest));
    std::string path;
    if (!stack_.empty()) {
      const Level& parent = stack_.back();
      path = parent.key_path;
      if (parent.node->is_map()) path += (path.empty() ? "" : ".") + parent.node->entries.back().key;
    }
    Node& node = place(mark);
    node.kind = kind;
    stack_.push_back({&node, std::move(path)});
  }

  bool key_is_due() const { return !stack_.empty() && stack_.back().node->is_map() && !stack_.back().has_key; }

  void add_key(const std::string& key, bool quoted, const YAML::Mark& mark) {
    Level& level = stack_.back();
    const std::string path = level.key_path.empty() ? key : level.key_path + "." + key;
    if (key == "<<" && !quoted) fail(mark, "merge keys (<<) are not supported; write the values out");
    if (key.empty()) fail(mark, "a key is empty");
    const auto [first, is_new] = level.lines.emplace(key, mark.line + 1);
    if (!is_new) {
      fail(mark, base_.is_argument()
                     ? fmt::format("{} is given twice", printable(path))
                     : fmt::format("{} is given twice, first on line {}", printable(path), first->second));
    }
    level.node->entries.push_back({key, base_.at_line(mark.line + 1), Node{}});
    level.has_key = true;
  }

  // The node for the value that comes now. Pointers to it stay good: its container grows only after
  // it is closed.
  Node& place(const YAML::Mark& mark) {
    Node* node = &root_;
    if (!stack_.empty()) {
      Level& level = stack_.back();
      node = level.node->is_map() ? &level.node->entries.back().value : &level.node->items.emplace_back();
      level.has_key = false;
    }
    node->origin = base_.at_line(mark.line + 1);
    return *node;
  }

  std::string_view text_;
  const Origin& base_;
  Node root_;
  std::vector<Level> stack_;
  int documents_ = 0;
};

std::string explained(const YAML::Exception& error) {
  if (error.msg.rfind(YAML::ErrorMsg::UNKNOWN_ANCHOR, 0) == 0) return TreeBuilder::kNoAliases;
  if (error.msg == YAML::ErrorMsg::MAP_VALUE) {
    return "not valid YAML: a ':' where no value can stand (indentation? quotes around text with "
           "': '?)";
  }
  if (error.msg == YAML::ErrorMsg::END_OF_MAP) return "not valid YAML: the map ends here (indentation? 'key: value'?)";
  if (error.msg == YAML::ErrorMsg::END_OF_SEQ) return "not valid YAML: the list ends here (indentation? '- item'?)";
  if (error.msg == YAML::ErrorMsg::EOF_IN_SCALAR) return "a quote is never closed";
  if (error.msg == YAML::ErrorMsg::BAD_FILE) return fmt::format("nested deeper than {} levels", kDeepest);
  return "not valid YAML: " + error.msg;
}

}  // namespace

Node parse_yaml_at(std::string_view text, const Origin& base) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  check_characters(text, base);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(text, base);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail_at(base.at_line(error.mark.line + 1), explained(error));
  }
  if (!builder.has_document()) fail_at(base, "the file is empty; expected 'key: value' lines");
  return builder.take();
}

}  // namespace fovea::config
