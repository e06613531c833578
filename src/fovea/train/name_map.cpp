#include "fovea/train/name_map.h"

#include <ATen/ATen.h>

#include <optional>

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
    const auto is_name = [](std::string_view name) {
      return !name.empty() && name.find_first_of(" \t=,") == name.npos;
    };
    if (!is_name(left)) refuse("expected one name on the left of '='");
    Rule made{.left = split_stars(left), .right = {}, .text = std::string(rule)};
    for (std::string_view rest = right; right != "-";) {
      const size_t comma = rest.find(',');
      const std::string_view name = trim(rest.substr(0, comma));
      if (!is_name(name)) refuse("expected a name on the right of '=', or names with commas between them");
      made.right.push_back(split_stars(name));
      if (made.right.back().size() > made.left.size()) refuse("expected no more stars on the right than on the left");
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    map.rules_.push_back(std::move(made));
  }
  return map;
}

NameMap NameMap::load(const std::filesystem::path& path) {
  return parse(read_maybe_gzip(path, kMaxBytes), path.string());
}

std::vector<std::string> NameMap::operator()(const std::string& name) const {
  for (const Rule& rule : rules_) {
    const auto stars = match(rule.left, name);
    if (!stars) continue;
    rule.used = true;
    std::vector<std::string> names;
    for (const auto& pieces : rule.right) {
      std::string& ours = names.emplace_back(pieces.front());
      for (size_t i = 1; i < pieces.size(); ++i) ours += (*stars)[i - 1] + pieces[i];
    }
    return names;
  }
  return {name};
}

std::vector<std::pair<std::string, at::Tensor>> NameMap::apply(const std::string& name,
                                                               const at::Tensor& tensor) const {
  const std::vector<std::string> names = (*this)(name);
  if (names.size() == 1) return {{names.front(), tensor}};
  std::vector<std::pair<std::string, at::Tensor>> shares;
  if (names.empty()) return shares;
  const auto count = static_cast<int64_t>(names.size());
  if (tensor.dim() == 0 || tensor.size(0) % count != 0) {
    fail_usage("{}: the name map shares its rows among {} names, found {}", name, count, c10::str(tensor.sizes()));
  }
  const std::vector<at::Tensor> parts = tensor.chunk(count);
  for (size_t i = 0; i < names.size(); ++i) shares.emplace_back(names[i], parts[i]);
  return shares;
}

std::vector<std::string> NameMap::unused() const {
  std::vector<std::string> texts;
  for (const Rule& rule : rules_) {
    if (!rule.used) texts.push_back(rule.text);
  }
  return texts;
}

}  // namespace fovea::train
