#include "fovea/train/name_map.h"

#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/text.h"

namespace fovea::train {
namespace {

constexpr uint64_t kMaxBytes = 16 << 20;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string> split_stars(std::string_view text) {
  std::vector<std::string> pieces;
  while (true) {
    const size_t star = text.find('*');
    pieces.emplace_back(text.substr(0, star));
    if (star == std::string_view::npos) return pieces;
    text.remove_prefix(star + 1);
  }
}

// What the stars stand for, each as little as will do, but the last whatever is left.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& pieces, std::string_view name) {
  if (!name.starts_with(pieces.front())) return std::nullopt;
  name.remove_prefix(pieces.front().size());
  std::vector<std::string> stars;
  for (size_t i = 1; i < pieces.size(); ++i) {
    const bool is_last = i + 1 == pieces.size();
    if (is_last && !name.ends_with(pieces[i])) return std::nullopt;
    const size_t end = is_last ? name.size() - pieces[i].size() : name.find(pieces[i]);
    if (end == std::string_view::npos) return std::nullopt;
    stars.emplace_back(name.substr(0, end));
    name.remove_prefix(end + pieces[i].size());
  }
  if (pieces.size() == 1 && !name.empty()) return std::nullopt;
  return stars;
}

}  // namespace

NameMap NameMap::parse(std::string_view text, const std::string& file) {
  NameMap map;
  int64_t number = 0;
  for (std::string_view line : data::split_lines(data::check_utf8(text, file))) {
    ++number;
    const auto refuse = [&](const char* why) {
      fail_usage("{}:{}: {}, found '{}'", file, number, why, data::excerpt(line));
    };
    const std::string_view rule = trim(line.substr(0, line.find('#')));
    if (rule.empty()) continue;
    const size_t equals = rule.find('=');
    if (equals == std::string_view::npos) refuse("expected 'their.name = our.name'");
    const std::string_view left = trim(rule.substr(0, equals)), right = trim(rule.substr(equals + 1));
    const auto is_name = [](std::string_view name) { return !name.empty() && name.find_first_of(" \t=") == name.npos; };
    if (!is_name(left) || !is_name(right)) refuse("expected one name on either side of '='");
    Rule made{split_stars(left), split_stars(right), right == "-", std::string(rule)};
    if (made.right.size() > made.left.size()) refuse("expected no more stars on the right than on the left");
    map.rules_.push_back(std::move(made));
  }
  return map;
}

NameMap NameMap::load(const std::filesystem::path& path) {
  return parse(read_maybe_gzip(path, kMaxBytes), path.string());
}

std::optional<std::string> NameMap::operator()(const std::string& name) const {
  for (const Rule& rule : rules_) {
    const auto stars = match(rule.left, name);
    if (!stars) continue;
    rule.used = true;
    if (rule.leaves_out) return std::nullopt;
    std::string ours = rule.right.front();
    for (size_t i = 1; i < rule.right.size(); ++i) ours += (*stars)[i - 1] + rule.right[i];
    return ours;
  }
  return name;
}

std::vector<std::string> NameMap::unused() const {
  std::vector<std::string> texts;
  for (const Rule& rule : rules_) {
    if (!rule.used) texts.push_back(rule.text);
  }
  return texts;
}

}  // namespace fovea::train
